/** Version of the product, equal to package.json's (a test compares them). */
export const version = "0.1.0";
