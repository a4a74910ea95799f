// Messages that are recorded and never refused: if the pipeline cannot read one, its record has what JSON can express.
import { type CallRequest, type Completed, callRequest } from '@svc/core'
import { canonicalize, isJsonObject, type JsonValue, sha256Hex } from '@svc/core/json'
import { ReferenceInputError } from '@svc/core/match'
import { type CallControl, refineTarget } from '@svc/core/pipeline'
import type { RpcMessage } from './transport.js'

const maxName = 256

/** The request of a message that was refused when it was read. `server` is named in the record. */
export function requestForRecord(
  call: CallControl,
  message: RpcMessage,
  { server, version }: { readonly server: string; readonly version: string },
): CallRequest {
  const { method, params } = message
  const fields = isJsonObject(params) ? params : {}
  const mcpMethod = typeof method === 'string' ? shownName(method) : null
  const isTool = method === 'tools/call' && typeof fields['name'] === 'string' && fields['name'] !== ''
  const name = isTool ? shownName(String(fields['name'])) : (mcpMethod ?? 'response')
  const args = toRepresentable(isTool ? (fields['arguments'] ?? {}) : (params ?? {}))
  const common = { method: mcpMethod, server, version, name, args, idempotencyKey: null }
  call[refineTarget]({ tool: name, mcpMethod, serverVersion: version, toolVersion: version })
  try {
    return callRequest({ ...common, kind: isTool ? 'tool' : 'protocol' })
  } catch (error) {
    if (!(error instanceof ReferenceInputError)) throw error
    return callRequest({ ...common, kind: 'protocol' })
  }
}

/** The response of the server as it is recorded; the client gets the response itself. */
export function completedForRecord(response: RpcMessage | undefined): Completed {
  const completed = { kind: 'completed', sent: 'yes', headers: {}, body: new Uint8Array() } as const
  if (response === undefined) return { ...completed, status: 202, digest: null }
  if (!('result' in response)) return { ...completed, status: 200, digest: null, error: 'UPSTREAM' }
  const { result } = response
  const digest = sha256Hex(canonicalize(toRepresentable(result)))
  const isError = isJsonObject(result) && result['isError'] === true
  return { ...completed, status: 200, digest, ...(isError ? { error: 'UPSTREAM' } : {}) }
}

/** The value if canonical JSON can represent it; else `{ "json": … }` with its JSON text, null if it has none. */
function toRepresentable(value: unknown): JsonValue {
  try {
    canonicalize(value)
    return value as JsonValue
  } catch {
    return { json: jsonText(value) }
  }
}

/** JSON.stringify escapes lone surrogates. */
function jsonText(value: unknown): string | null {
  try {
    return JSON.stringify(value) ?? null
  } catch {
    return null
  }
}

function shownName(name: string): string {
  return name.slice(0, maxName).toWellFormed()
}
