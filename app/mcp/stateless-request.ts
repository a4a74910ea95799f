// The metadata of a request without a session: `_meta`, and the headers that repeat the message (2026-07-28, Streamable HTTP,
// "Request Metadata").
import { isJsonObject, type JsonObject, type JsonValue } from '@svc/core/json'
import { PROTOCOL_VERSION_HEADER } from '../http/header-names.js'
import { encoded } from './header-text.js'
import { nameSources } from './header-validation.js'
import { isImplementation } from './implementation.js'
import {
  META_CLIENT_CAPABILITIES,
  META_CLIENT_INFO,
  META_PROTOCOL_VERSION,
  STATELESS_REVISION,
} from './protocol.js'

/** The members of `_meta` by which a request says of which client it is. */
export function clientMeta(clientInfo: JsonValue, capabilities: JsonValue = {}): JsonObject {
  return {
    [META_PROTOCOL_VERSION]: STATELESS_REVISION,
    // Optional, and refused if it is not valid.
    ...(isImplementation(clientInfo) ? { [META_CLIENT_INFO]: clientInfo } : {}),
    [META_CLIENT_CAPABILITIES]: capabilities,
  }
}

/** The revision in the `_meta` of params, which only requests without a session have. */
export function revisionIn(params: unknown): string | undefined {
  const meta = isJsonObject(params) ? params['_meta'] : undefined
  const revision = isJsonObject(meta) ? meta[META_PROTOCOL_VERSION] : undefined
  return typeof revision === 'string' ? revision : undefined
}

export function headersOfRequest(revision: string, method: string, params: unknown): Record<string, string> {
  const source = nameSources.get(method)
  const name = source !== undefined && isJsonObject(params) ? params[source] : undefined
  return {
    [PROTOCOL_VERSION_HEADER]: revision,
    'mcp-method': method,
    ...(typeof name === 'string' ? { 'mcp-name': encoded(name) } : {}),
  }
}
