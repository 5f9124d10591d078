import { usePlace } from "../location.js";
import { DeliveryList } from "./deliveries/delivery-list.js";
import { DeliveryView } from "./deliveries/delivery-view.js";
import "./deliveries/deliveries.css";

/** What became of events: a list, and one of them by `?id=`. */
export function Deliveries() {
  const id = usePlace().query.get("id") ?? "";
  return id === "" ? <DeliveryList /> : <DeliveryView key={id} id={id} />;
}
