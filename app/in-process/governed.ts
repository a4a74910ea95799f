// Puts the pipeline in front of a function: it runs only when every stage lets the call pass.
import {
  abortable,
  brand,
  type Call,
  type Clock,
  type Completed,
  type Denial,
  type ErrorCode,
  hasBrand,
  type Ids,
  isRefusal,
  isStream,
  type Outcome,
  resolve,
  type Sent,
  tokens,
} from '@svc/core'
import { canonicalize, isJsonObject, type JsonObject, messageOf } from '@svc/core/json'
import type { CallControl } from '@svc/core/pipeline'
import { outcomeOfError } from '../upstream/invoke.js'
import { traceparentOf } from '../upstream/send.js'
import type { EmbeddedPipeline } from './pipeline.js'
import { type CallerIdentity, callOf } from './tool-call.js'

/** The tool that a function is, for policies and records: `mcp://<server>/<name>@<version>`. */
export interface GovernedTool {
  readonly server: string
  readonly name: string
  /** Default: `unversioned`. */
  readonly version?: string
}

/** The facts of one call beside its arguments. */
export interface CallContext {
  /** The caller; a bearer token may be given instead, in `headers.authorization`. */
  readonly identity?: CallerIdentity
  readonly idempotencyKey?: string
  /** An approved escalation of this very call. */
  readonly escalationId?: string
  /** Time to wait for a decision if the call needs an approval, in seconds. */
  readonly waitSec?: number
  /** Further request headers, names in lower case: agent and trace. */
  readonly headers?: Readonly<Record<string, string>>
  /** Cancels the call. */
  readonly signal?: AbortSignal
}

/** The call that a governed function runs for. */
export interface RunningCall {
  /** Aborts when the call must stop: cancelled, or over a limit of the policy. */
  readonly signal: AbortSignal
  /** Continues the trace of the call (W3C Trace Context), for what the function itself calls. */
  readonly traceparent: string
}

/** A function behind the pipeline. */
export type Governed<Args extends object, Result> = (args: Args, context?: CallContext) => Promise<Result>

/**
 * `fn` behind the pipeline. Arguments and results are JSON: `fn` gets a copy of what was judged, and a repeated
 * idempotency key gets the recorded result without running `fn`.
 *
 * The returned function rejects with `GovernanceError` if the call is refused or cannot be finished, and with the error
 * of `fn` if that failed. `context` gives what calls have in common.
 */
export function governed<Args extends object, Result>(
  pipeline: EmbeddedPipeline,
  tool: GovernedTool,
  fn: (args: Args, call: RunningCall) => PromiseLike<Result> | Result,
  context: () => CallContext = () => ({}),
): Governed<Args, Result> {
  const { server, name, version = 'unversioned' } = tool
  const { container } = pipeline
  let ids: Ids | undefined
  let clock: Clock | undefined
  return async (args, more) => {
    const given = more === undefined ? context() : { ...context(), ...more }
    ids ??= resolve(container, tokens.Ids)
    clock ??= resolve(container, tokens.Clock)
    const { identity } = given
    const named = { server, tool: name, version, args: jsonOf(args), headers: headersOf(given) }
    const call = callOf(identity === undefined ? named : { ...named, identity }, ids, clock)
    const cancel = (): void => call.abort('CANCELLED', 'The call was cancelled.')
    given.signal?.addEventListener('abort', cancel, { once: true })
    const execution = new Execution(fn)
    try {
      if (given.signal?.aborted === true) cancel()
      return execution.resultOf(await pipeline.run(call, (running) => execution.run(running)), call)
    } finally {
      given.signal?.removeEventListener('abort', cancel)
    }
  }
}

/** One run of the function. */
class Execution<Args, Result> {
  #fn: (args: Args, call: RunningCall) => PromiseLike<Result> | Result
  /** The value that the function returned, for the body that its call has if no stage replaces it. */
  #own: { readonly result: Result; readonly body: Uint8Array } | undefined
  #error: { readonly error: unknown } | undefined

  constructor(fn: (args: Args, call: RunningCall) => PromiseLike<Result> | Result) {
    this.#fn = fn
  }

  async run(call: CallControl): Promise<Outcome> {
    const { args } = await call.request()
    const refused = await call.commitHolds()
    if (refused !== undefined) return refused
    if (call.abortState.aborted) {
      call.markSent('no')
      return outcomeOfError(call, call.abortState.reason)
    }
    call.markSent('yes')
    try {
      const running = toPromise(this.#fn(copyOf(args) as Args, new CallInProgress(call)))
      const result = running instanceof Promise ? await abortable(call.abortState, running) : running
      const body = Buffer.from(canonicalize(result ?? null))
      this.#own = { result, body }
      return completedOutcome(200, body)
    } catch (error) {
      if (isRefusal(error) && error === call.abortState.reason) return outcomeOfError(call, error)
      this.#error = { error }
      const body = Buffer.from(JSON.stringify({ message: messageOf(error) }))
      return { ...completedOutcome(500, body), error: 'UPSTREAM' }
    }
  }

  /** Throws the error with which the call failed. */
  resultOf(outcome: Outcome, call: Call): Result {
    if (outcome.kind !== 'completed') throw errorOf(outcome, call)
    const { body } = outcome
    if (this.#own !== undefined && body === this.#own.body) return this.#own.result
    if (this.#error !== undefined) throw this.#error.error
    if (isStream(body)) throw new TypeError('the result of a function is not a stream')
    return JSON.parse(Buffer.from(body).toString()) as Result
  }
}

/**
 * A promise for a thenable of any library or realm; any other value as it is. `then` is read once and called once, as
 * query builders run with each call of it.
 */
function toPromise<T>(value: PromiseLike<T> | T): Promise<T> | T {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return value
  const then: unknown = Reflect.get(value, 'then')
  if (typeof then !== 'function') return value as T
  return new Promise<T>((resolve, reject) => Reflect.apply(then, value, [resolve, reject]))
}

/** Makes the signal and the trace only if the function asks for them. */
class CallInProgress implements RunningCall {
  #call: Call

  constructor(call: Call) {
    this.#call = call
  }

  get signal(): AbortSignal {
    return this.#call.signal
  }

  get traceparent(): string {
    return traceparentOf(this.#call)
  }
}

function completedOutcome(status: number, body: Uint8Array): Completed {
  return { kind: 'completed', status, headers: { 'content-type': 'application/json' }, body }
}

/**
 * A copy as JSON represents it, so that nothing changes it between judgement and use. Throws `CanonicalJsonError` if
 * JSON cannot represent it exactly.
 */
function jsonOf(args: object): JsonObject {
  canonicalize(args)
  const copy = copyOf(args)
  if (!isJsonObject(copy)) throw new TypeError('the arguments are not an object')
  return copy as JsonObject
}

function copyOf(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value))
}

function headersOf({
  headers = {},
  idempotencyKey,
  escalationId,
  waitSec,
}: CallContext): Record<string, string> {
  return {
    ...headers,
    ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
    ...(escalationId === undefined ? {} : { 'x-escalation-id': escalationId }),
    ...(waitSec === undefined ? {} : { 'x-escalation-wait': String(waitSec) }),
  }
}

/** The error of a tool call that a stage refused or that could not be finished. */
export class GovernanceError extends Error {
  readonly [brand] = 'GovernanceError'
  override readonly name = 'GovernanceError'

  /** The message has the code and the reason, because a model gets nothing else from the error. */
  constructor(
    readonly code: ErrorCode,
    message: string,
    readonly details: {
      /** Whether the function was called. */
      readonly sent: Sent
      readonly denial?: Denial | undefined
      /** Set if the call waits for an approval. */
      readonly escalationId?: string | undefined
      readonly traceId: string
      readonly cause?: unknown
    },
  ) {
    const reason = details.denial?.reason
    super(`${code}${reason === undefined ? '' : ` (${reason})`}: ${message}`, { cause: details.cause })
  }
}

/** True also for an error of another copy of this package. */
export function isGovernanceError(value: unknown): value is GovernanceError {
  return hasBrand(value, 'GovernanceError')
}

/** The error of an outcome without a response. */
export function errorOf(
  outcome: Exclude<Outcome, { kind: 'completed' }>,
  { sent, trace }: Call,
): GovernanceError {
  const { code, message } = outcome
  return new GovernanceError(code, message, {
    sent,
    traceId: trace.traceId,
    ...(outcome.kind === 'denied'
      ? { denial: outcome.denial, escalationId: outcome.escalation?.id }
      : { cause: outcome.cause }),
  })
}

// Tools of the Vercel AI SDK behind the pipeline. Only the shape of a tool is used, so no version of the SDK is needed.

/** The part of a tool that runs. */
interface Executable {
  readonly execute?: (input: never, options: never) => unknown
}

/** Options of `govern`. */
export interface GovernOptions {
  /** The server under which the tools are known to the policy. */
  readonly server: string
  readonly version?: string
  /** The context of a call, such as the identity of the user; called for each call. */
  readonly context?: (toolName: string) => CallContext
}

/**
 * The same tools with the pipeline in front of each `execute`; tools without one stay as they are. A refused call
 * rejects with `GovernanceError`, which the SDK gives to the model as a tool error with the reason. If a tool yields
 * preliminary results, only the last one is returned.
 */
export function govern<Tools extends Readonly<Record<string, Executable>>>(
  pipeline: EmbeddedPipeline,
  tools: Tools,
  { server, version, context = () => ({}) }: GovernOptions,
): Tools {
  const entries = Object.entries(tools).map(([name, tool]) => {
    if (tool.execute === undefined) return [name, tool]
    const execute = tool.execute as (input: object, options: object) => unknown
    const run = (input: object, options: { readonly abortSignal?: AbortSignal } = {}): Promise<unknown> => {
      const call = governed<object, unknown>(
        pipeline,
        { server, name, ...(version === undefined ? {} : { version }) },
        async (args, { signal }) => lastOf(await execute(args, { ...options, abortSignal: signal })),
        () => context(name),
      )
      return call(input, options.abortSignal === undefined ? {} : { signal: options.abortSignal })
    }
    return [name, { ...tool, execute: run }]
  })
  return Object.fromEntries(entries) as Tools
}

async function lastOf(result: unknown): Promise<unknown> {
  if (typeof result !== 'object' || result === null || !(Symbol.asyncIterator in result)) return result
  let last: unknown
  for await (const each of result as AsyncIterable<unknown>) last = each
  return last
}
