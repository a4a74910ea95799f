// Limits, in characters, on the names that clients and servers choose and the gateway keeps.

/** Ids, and names of tools and prompts. */
export const MAX_NAME = 1_024
export const MAX_URI = 8_192
/** A client's or server's description of itself, as JSON. */
export const MAX_DESCRIPTION = 262_144
