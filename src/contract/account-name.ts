/** What an account may be called. */
export const accountNameForm = /^[a-z0-9-]{1,64}$/;

/** The same in words, after "must be". */
export const accountNameWords = "1 to 64 of a-z, 0-9 and -";
