/** The RPCs that the dashboard calls, by name, with the JSON types of their messages. */
import type * as apiKey from "../../../gen/unified/admin/v1/api_key_service_pb.js";
import type * as limit from "../../../gen/unified/admin/v1/limit_service_pb.js";
import type * as modelAdmin from "../../../gen/unified/admin/v1/model_admin_service_pb.js";
import type * as requestLog from "../../../gen/unified/admin/v1/request_log_service_pb.js";
import type * as session from "../../../gen/unified/admin/v1/session_service_pb.js";
import type * as system from "../../../gen/unified/admin/v1/system_service_pb.js";
import type * as threshold from "../../../gen/unified/admin/v1/threshold_service_pb.js";
import type * as upstream from "../../../gen/unified/admin/v1/upstream_service_pb.js";
import type * as usage from "../../../gen/unified/admin/v1/usage_service_pb.js";
import type * as catalog from "../../../gen/unified/catalog/v1/catalog_service_pb.js";
import type * as inference from "../../../gen/unified/inference/v1/inference_service_pb.js";
import type * as delivery from "../../../gen/unified/webhook/v1/delivery_service_pb.js";
import type * as endpoint from "../../../gen/unified/webhook/v1/webhook_endpoint_service_pb.js";

type Nothing = Record<string, never>;

/** Request and response of each unary RPC. */
export interface Methods {
  "unified.admin.v1.ApiKeyService/CreateApiKey": [apiKey.CreateApiKeyRequestJson, apiKey.CreateApiKeyResponseJson];
  "unified.admin.v1.ApiKeyService/ListApiKeys": [apiKey.ListApiKeysRequestJson, apiKey.ListApiKeysResponseJson];
  "unified.admin.v1.ApiKeyService/UpdateApiKey": [apiKey.UpdateApiKeyRequestJson, apiKey.UpdateApiKeyResponseJson];
  "unified.admin.v1.ApiKeyService/RotateApiKey": [apiKey.RotateApiKeyRequestJson, apiKey.RotateApiKeyResponseJson];
  "unified.admin.v1.ApiKeyService/RevokeApiKey": [apiKey.RevokeApiKeyRequestJson, apiKey.RevokeApiKeyResponseJson];
  "unified.admin.v1.LimitService/GetLimits": [limit.GetLimitsRequestJson, limit.GetLimitsResponseJson];
  "unified.admin.v1.RequestLogService/ListRequestLogs": [
    requestLog.ListRequestLogsRequestJson,
    requestLog.ListRequestLogsResponseJson,
  ];
  "unified.admin.v1.RequestLogService/GetRequestLog": [
    requestLog.GetRequestLogRequestJson,
    requestLog.GetRequestLogResponseJson,
  ];
  "unified.admin.v1.SessionService/CompleteSetup": [
    session.CompleteSetupRequestJson,
    session.CompleteSetupResponseJson,
  ];
  "unified.admin.v1.SessionService/SignIn": [session.SignInRequestJson, session.SignInResponseJson];
  "unified.admin.v1.SessionService/SignOut": [Nothing, session.SignOutResponseJson];
  "unified.admin.v1.SessionService/ListSessions": [Nothing, session.ListSessionsResponseJson];
  "unified.admin.v1.SessionService/RevokeSession": [
    session.RevokeSessionRequestJson,
    session.RevokeSessionResponseJson,
  ];
  "unified.admin.v1.SessionService/ChangePassword": [
    session.ChangePasswordRequestJson,
    session.ChangePasswordResponseJson,
  ];
  "unified.admin.v1.SystemService/GetSystem": [Nothing, system.GetSystemResponseJson];
  "unified.admin.v1.SystemService/GetHistory": [system.GetHistoryRequestJson, system.GetHistoryResponseJson];
  "unified.admin.v1.SystemService/RunDoctor": [Nothing, system.RunDoctorResponseJson];
  "unified.admin.v1.SystemService/ListAuditRecords": [
    system.ListAuditRecordsRequestJson,
    system.ListAuditRecordsResponseJson,
  ];
  "unified.admin.v1.UsageService/QueryUsage": [usage.QueryUsageRequestJson, usage.QueryUsageResponseJson];
  "unified.admin.v1.ThresholdService/CreateThreshold": [
    threshold.CreateThresholdRequestJson,
    threshold.CreateThresholdResponseJson,
  ];
  "unified.admin.v1.ThresholdService/ListThresholds": [
    threshold.ListThresholdsRequestJson,
    threshold.ListThresholdsResponseJson,
  ];
  "unified.admin.v1.ThresholdService/UpdateThreshold": [
    threshold.UpdateThresholdRequestJson,
    threshold.UpdateThresholdResponseJson,
  ];
  "unified.admin.v1.ThresholdService/DeleteThreshold": [
    threshold.DeleteThresholdRequestJson,
    threshold.DeleteThresholdResponseJson,
  ];
  "unified.admin.v1.ModelAdminService/ListPulls": [Nothing, modelAdmin.ListPullsResponseJson];
  "unified.admin.v1.ModelAdminService/CancelPull": [
    modelAdmin.CancelPullRequestJson,
    modelAdmin.CancelPullResponseJson,
  ];
  "unified.admin.v1.ModelAdminService/ListStoredModels": [Nothing, modelAdmin.ListStoredModelsResponseJson];
  "unified.admin.v1.ModelAdminService/RemoveModel": [
    modelAdmin.RemoveModelRequestJson,
    modelAdmin.RemoveModelResponseJson,
  ];
  "unified.admin.v1.ModelAdminService/SearchModels": [
    modelAdmin.SearchModelsRequestJson,
    modelAdmin.SearchModelsResponseJson,
  ];
  "unified.admin.v1.ModelAdminService/LoadModel": [modelAdmin.LoadModelRequestJson, modelAdmin.LoadModelResponseJson];
  "unified.admin.v1.ModelAdminService/UnloadModel": [
    modelAdmin.UnloadModelRequestJson,
    modelAdmin.UnloadModelResponseJson,
  ];
  "unified.admin.v1.UpstreamService/ListUpstreams": [Nothing, upstream.ListUpstreamsResponseJson];
  "unified.admin.v1.UpstreamService/CheckUpstream": [
    upstream.CheckUpstreamRequestJson,
    upstream.CheckUpstreamResponseJson,
  ];
  "unified.admin.v1.UpstreamService/CreateUpstream": [
    upstream.CreateUpstreamRequestJson,
    upstream.CreateUpstreamResponseJson,
  ];
  "unified.admin.v1.UpstreamService/UpdateUpstream": [
    upstream.UpdateUpstreamRequestJson,
    upstream.UpdateUpstreamResponseJson,
  ];
  "unified.admin.v1.UpstreamService/DeleteUpstream": [
    upstream.DeleteUpstreamRequestJson,
    upstream.DeleteUpstreamResponseJson,
  ];
  "unified.admin.v1.UpstreamService/DrainDeployment": [
    upstream.DrainDeploymentRequestJson,
    upstream.DrainDeploymentResponseJson,
  ];
  "unified.catalog.v1.CatalogService/ListModels": [catalog.ListModelsRequestJson, catalog.ListModelsResponseJson];
  "unified.inference.v1.InferenceService/CreateEmbeddings": [
    inference.CreateEmbeddingsRequestJson,
    inference.CreateEmbeddingsResponseJson,
  ];
  "unified.webhook.v1.WebhookEndpointService/CreateWebhookEndpoint": [
    endpoint.CreateWebhookEndpointRequestJson,
    endpoint.CreateWebhookEndpointResponseJson,
  ];
  "unified.webhook.v1.WebhookEndpointService/ListWebhookEndpoints": [
    endpoint.ListWebhookEndpointsRequestJson,
    endpoint.ListWebhookEndpointsResponseJson,
  ];
  "unified.webhook.v1.WebhookEndpointService/UpdateWebhookEndpoint": [
    endpoint.UpdateWebhookEndpointRequestJson,
    endpoint.UpdateWebhookEndpointResponseJson,
  ];
  "unified.webhook.v1.WebhookEndpointService/DeleteWebhookEndpoint": [
    endpoint.DeleteWebhookEndpointRequestJson,
    endpoint.DeleteWebhookEndpointResponseJson,
  ];
  "unified.webhook.v1.WebhookEndpointService/RotateWebhookSecret": [
    endpoint.RotateWebhookSecretRequestJson,
    endpoint.RotateWebhookSecretResponseJson,
  ];
  "unified.webhook.v1.WebhookEndpointService/SendTestEvent": [
    endpoint.SendTestEventRequestJson,
    endpoint.SendTestEventResponseJson,
  ];
  "unified.webhook.v1.DeliveryService/ListDeliveries": [
    delivery.ListDeliveriesRequestJson,
    delivery.ListDeliveriesResponseJson,
  ];
  "unified.webhook.v1.DeliveryService/GetDelivery": [delivery.GetDeliveryRequestJson, delivery.GetDeliveryResponseJson];
  "unified.webhook.v1.DeliveryService/RetryDelivery": [
    delivery.RetryDeliveryRequestJson,
    delivery.RetryDeliveryResponseJson,
  ];
  "unified.webhook.v1.DeliveryService/ReplayDeliveries": [
    delivery.ReplayDeliveriesRequestJson,
    delivery.ReplayDeliveriesResponseJson,
  ];
}

/** Request and streamed response of each server-streaming RPC. */
export interface Streams {
  "unified.admin.v1.SystemService/WatchOverview": [Nothing, system.WatchOverviewResponseJson];
  "unified.admin.v1.ModelAdminService/PullModel": [modelAdmin.PullModelRequestJson, modelAdmin.PullModelResponseJson];
  "unified.inference.v1.InferenceService/StreamChatCompletion": [
    inference.StreamChatCompletionRequestJson,
    inference.StreamChatCompletionResponseJson,
  ];
  "unified.inference.v1.InferenceService/StreamCompletion": [
    inference.StreamCompletionRequestJson,
    inference.StreamCompletionResponseJson,
  ];
}
