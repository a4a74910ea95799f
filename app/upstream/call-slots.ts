// The slots of a call about its server: how it is sent, and for its span the address and the error in the response.
import { type Call, slot } from '@svc/core'
import { isJsonObject } from '@svc/core/json'
import type { Dispatch } from '@svc/core/pipeline'
import type { Target } from './target.js'

/** The endpoint that creates a call sets it: it knows the upstream, so the pipeline need not decide it again. */
export const dispatcher = slot<{ readonly dispatch: Dispatch }>('svc-sdk/dispatcher')

/** The dispatch of a pipeline's core. */
export const dispatchFromSlot: Dispatch = (call) => call.need(dispatcher).dispatch(call)

/** Set by the endpoint that created the call; `isMcp`: the call is sent by MCP. */
export const upstreamTarget = slot<Target>('svc-sdk/upstreamTarget', { isShared: true })

interface ReportedError {
  /** `error.type`. */
  readonly type: string
  /** Whether the type is a code of JSON-RPC. */
  readonly isRpcCode: boolean
}

/** The error in the server's response; absent if it has none, or there is no response. */
export const reportedError = slot<ReportedError>('svc-sdk/reportedError', { isShared: true })

/** Reads the error of a JSON-RPC response, as the semantic conventions for MCP name it. */
export function noteRpcError(call: Call, { error, result }: Readonly<Record<string, unknown>>): void {
  if (isJsonObject(error)) call.set(reportedError, { type: String(error['code']), isRpcCode: true })
  else if (isJsonObject(result) && result['isError'] === true)
    call.set(reportedError, { type: 'tool_error', isRpcCode: false })
}

/** Reads the error of an HTTP response. */
export function noteHttpError(call: Call, status: number): void {
  if (status >= 400) call.set(reportedError, { type: String(status), isRpcCode: false })
}
