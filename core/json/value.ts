export type { JsonObject, JsonValue } from './text.js'
