import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Field, textOf } from "./form.js";

export interface PasswordFieldProps {
  readonly label: string;
  /** The request field, as errors of the service name it. */
  readonly name?: string;
  readonly hint?: string;
  /** Whether password managers offer a generated password instead of the saved one. Default: false. */
  readonly isNew?: boolean;
  readonly value: string;
  readonly onChange: (value: string) => void;
}

/** A password field; a new password has the length that the service requires. */
export function PasswordField({ isNew = false, value, onChange, ...field }: PasswordFieldProps) {
  const bounds = isNew ? { minLength: 12, maxLength: 1_024 } : {};
  return (
    <Field {...field}>
      {(ids) => (
        <input
          {...ids}
          {...bounds}
          type="password"
          autocomplete={isNew ? "new-password" : "current-password"}
          required
          value={value}
          onInput={(event) => onChange(textOf(event))}
        />
      )}
    </Field>
  );
}

/** The hidden user name, for password managers. */
export function Administrator() {
  return <input type="text" name="username" value="admin" autocomplete="username" hidden readOnly />;
}

/** Replaces the service's message, which also mentions the user name. */
export function wrongPassword(): Error {
  return new Error("Incorrect password.");
}

export interface NewPassword {
  /** The password and its confirmation. */
  readonly fields: ComponentChildren;
  /** The password; throws if the two fields differ. */
  confirmed(): string;
}

/** Fields for a new password and its confirmation. `name` is the request field, as errors of the service name it. */
export function useNewPassword(label: string, name: string): NewPassword {
  const [password, setPassword] = useState("");
  const [again, setAgain] = useState("");
  return {
    fields: (
      <>
        <PasswordField
          isNew
          label={label}
          name={name}
          hint="At least 12 characters."
          value={password}
          onChange={setPassword}
        />
        <PasswordField isNew label="Confirm password" value={again} onChange={setAgain} />
      </>
    ),
    confirmed() {
      if (password !== again) throw new Error("The passwords do not match.");
      return password;
    },
  };
}
