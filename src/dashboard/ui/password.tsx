import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Field, textOf } from "./form.js";

export interface PasswordFieldProps {
  readonly label: string;
  /** Name of the field in the service's errors. */
  readonly name?: string;
  readonly hint?: string;
  /** Whether browsers offer the kept one or make a new one. Default: the kept one. */
  readonly isNew?: boolean;
  readonly value: string;
  readonly onChange: (value: string) => void;
}

/** A password, kept one or new; a new one has the length that the service asks for. */
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

/** Whose password it is, for browsers that keep passwords. */
export function Administrator() {
  return <input type="text" name="username" value="admin" autocomplete="username" hidden readOnly />;
}

/** Said where only a password was asked for: the service would speak of the name too. */
export function wrongPassword(): Error {
  return new Error("The password is not right.");
}

/** A new password that was typed twice. */
export interface NewPassword {
  /** The two fields. */
  readonly fields: ComponentChildren;
  /** The password; throws where the two are not the same. */
  agreed(): string;
}

/** Asks for a new password, twice. `name` is that of the field in the service's errors. */
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
          hint="12 characters or more."
          value={password}
          onChange={setPassword}
        />
        <PasswordField isNew label="The same again" value={again} onChange={setAgain} />
      </>
    ),
    agreed() {
      if (password !== again) throw new Error("The two passwords are not the same.");
      return password;
    },
  };
}
