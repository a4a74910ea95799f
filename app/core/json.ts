// `svc-sdk/core/json`: strict parsing, canonical JSON and hashes.
export {
  CanonicalJsonError,
  canonicalize,
  isJsonObject,
  JsonInputError,
  type JsonObject,
  type JsonValue,
  messageOf,
  parseJson,
  sha256Hex,
} from '@svc/core/json'
