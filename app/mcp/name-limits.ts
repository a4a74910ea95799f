// Limits on the names that others choose and the gateway keeps, in characters: many are kept, and for long.

/** Ids, and names of tools and prompts. */
export const MAX_NAME = 1_024
export const MAX_URI = 8_192
/** What a client, or a server, says of itself, as JSON. */
export const MAX_DESCRIPTION = 262_144
