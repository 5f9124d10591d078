/** Valid names of accounts. */
export const accountNameForm = /^[a-z0-9-]{1,64}$/;

/** `accountNameForm` in words, after "must be". */
export const accountNameWords = "1 to 64 of a-z, 0-9 and -";

/** Valid ids of models: 1 to 128 characters. */
export const modelIdForm = /^[A-Za-z0-9._:/-]{1,128}$/;

/** `modelIdForm` in words, after "must be". */
export const modelIdWords = "1 to 128 of a-z, A-Z, 0-9 and . _ : / -";
