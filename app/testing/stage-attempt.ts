// One call through a stage alone, as a gateway runs it, and the outcomes that the rest of a pipeline may return.
import { strict as assert } from 'node:assert'
import {
  type Call,
  denied,
  failed,
  isStream,
  type MaybePromise,
  type Next,
  type Outcome,
  type ResponseChunk,
  type Stage,
  withinLimit,
} from '@svc/core'
import { type CallControl, Pipeline } from '@svc/core/pipeline'

const headers = { 'content-type': 'application/json' }
export const served: Outcome = {
  kind: 'completed',
  status: 200,
  headers,
  body: new TextEncoder().encode('{}'),
}

/** Outcomes that the rest of a pipeline may return. */
export const endings: readonly (() => Outcome)[] = [
  () => served,
  () => ({ ...served, body: streamedBody() }),
  () => ({ ...served, status: 500, error: 'UPSTREAM' }),
  () => denied('RATE_LIMITED', 'Denied in a test.'),
  () => failed('UPSTREAM_UNREACHABLE', 'Failed in a test.'),
  () => failed('INTERNAL', 'Failed in a test.'),
]

async function* streamedBody(): AsyncGenerator<ResponseChunk> {
  yield { bytes: new TextEncoder().encode('{}') }
}

/** A call through the stage alone, as a gateway runs it. */
export interface StageAttempt {
  readonly call: Call
  readonly outcome: Outcome
  /** The result of `next()`; undefined if it was not called. */
  readonly inside: Outcome | undefined
  /** Number of the stage's calls of `next()`. */
  readonly nextCalls: number
  /** Whether the stage returned before `next()` had ended. */
  readonly isInside: boolean
  /** An error of the stage that breaks the contract. */
  readonly stageError: string | undefined
}

/** `limitMs` is the longest time of the call. */
export async function attemptCall(
  stage: Stage,
  call: CallControl,
  ending: () => MaybePromise<Outcome>,
  limitMs: number,
): Promise<StageAttempt> {
  let nextCalls = 0
  let isRunning = false
  let isInside = false
  let inside: Outcome | undefined
  const watched: Stage = {
    async handle(given, next) {
      const counted: Next = async () => {
        nextCalls++
        isRunning = true
        inside = await next()
        isRunning = false
        return inside
      }
      try {
        return await stage.handle(given, counted)
      } finally {
        isInside = isRunning
      }
    },
  }
  const dispatch = async (): Promise<Outcome> => {
    const outcome = await ending()
    return outcome.kind === 'denied' ? outcome : ((await call.commitHolds()) ?? outcome)
  }
  const pipeline = new Pipeline([{ name: 'under test', stage: watched }], dispatch)
  const outcome = await withinLimit('handle()', pipeline.run(call), limitMs)
  if (outcome.kind === 'completed' && isStream(outcome.body)) {
    for await (const { bytes } of outcome.body) assert.ok(bytes instanceof Uint8Array, 'a chunk has no bytes')
  }
  const isError = outcome.kind === 'failed' && outcome.code === 'INTERNAL' && outcome !== inside
  return {
    call,
    outcome,
    inside,
    nextCalls,
    isInside,
    stageError: isError ? describeCause(outcome.cause) : undefined,
  }
}

function describeCause(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause)
  return cause.cause === undefined ? cause.message : `${cause.message}: ${describeCause(cause.cause)}`
}
