// The values of JSON (RFC 8259 §3).
export type JsonValue = null | boolean | number | string | JsonArray | JsonObject
type JsonArray = JsonValue[]
export interface JsonObject {
  [name: string]: JsonValue
}
