// Estimates what limits would have refused: recorded calls are counted in the order of their arrival by the stages that
// count live calls. Retries that a refusal would have caused never came, so these are estimates.
import { callRequest, identity, type Limit, limits } from '@svc/core'
import { compose, type Dispatch } from '@svc/core/pipeline'
import type { Judge } from '../judge/judge.js'
import { unsent, unsentCall } from '../judge/unsent-call.js'

export interface CountedCall {
  /** Milliseconds since the epoch. */
  readonly at: number
  readonly tenant: string
  readonly tool: string
  readonly limits: readonly Limit[]
  /** Whether a limit refused it when it was recorded. */
  readonly wasRefused: boolean
}

export interface LimitEstimate {
  /** Calls after the warm-up that limits would refuse and did not, by tool and limit. */
  readonly more: ReadonlyMap<string, number>
  /** Calls that limits refused and would not. */
  readonly fewer: number
  /** The end of the warm-up; undefined if the calls span less. */
  readonly from: string | undefined
}

const WARM_UP_MS = 86_400_000

/** The calls are sorted in place. */
export async function estimateLimits(
  calls: CountedCall[],
  { metering, clock }: Judge,
): Promise<LimitEstimate> {
  calls.sort((a, b) => a.at - b.at)
  const from = (calls[0]?.at ?? 0) + WARM_UP_MS
  const count = compose(metering, commit)
  const more = new Map<string, number>()
  let fewer = 0
  for (const { at, tenant, limits: counted, wasRefused, tool } of calls) {
    clock.set({ time: at })
    const call = unsentCall(anyRequest, { receivedAt: at })
    call.set(identity, { tenant, authenticated: true, roles: [] })
    call.set(limits, counted)
    await call.request()
    const outcome = await count(call)
    if (at < from) continue
    const isRefused = outcome.kind !== 'completed'
    if (isRefused && !wasRefused) {
      const key = `${tool}  ${outcome.code}`
      more.set(key, (more.get(key) ?? 0) + 1)
    } else if (!isRefused && wasRefused) fewer++
  }
  const spansMore = (calls.at(-1)?.at ?? 0) >= from
  return { more, fewer, from: spansMore ? new Date(from).toISOString() : undefined }
}

/** The limits of a call are those that were set, whatever its request. */
const anyRequest = callRequest({
  kind: 'tool',
  method: null,
  server: 'any',
  name: 'any',
  version: '1',
  args: {},
  idempotencyKey: null,
})

const commit: Dispatch = async (call) => (await call.commitHolds()) ?? unsent
