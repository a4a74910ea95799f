// Enforcement with people to decide: a stage in front of an upstream, on a clock that stands still.
import { randomBytes } from 'node:crypto'
import {
  bind,
  type Call,
  type CallRequest,
  type EscalationRule,
  type EscalationService,
  type EscalationStore,
  type Finding,
  type GatewayEvent,
  type Identity,
  identity,
  type Outcome,
  type PluginContext,
  type PolicyFacts,
  type Redactor,
  type Reviewer,
  redactor,
  type Stage,
  services,
  type Token,
  tokens,
} from '@svc/core'
import { enforcementPlugin } from '@svc/plugin-enforcement'
import { createStage, FakeClock, type FakeContext, fakeContext } from 'svc-sdk/testing'
import { makeCall } from '../../../support/call.js'

export const MINUTE = 60_000
export const TTL = 15 * MINUTE

export const rule: EscalationRule = {
  strategy: 'human_quorum',
  timeoutAction: 'auto_reject',
  ttlMs: TTL,
  minApprovals: 1,
  minRejections: 1,
  requiredRoles: [],
  vetoRoles: [],
  showsArguments: true,
}

export const risky: Finding = {
  reason: 'egress_violation',
  stage: 'security',
  level: 'gateway',
  detail: 'args.url is at evil.example',
}

export const caller: Identity = {
  tenant: 'acme',
  authenticated: true,
  user: 'cal@acme.example',
  userId: 'u-cal',
  roles: [],
}

export function reviewer(name: string, roles: readonly string[] = [], tenant = 'acme'): Reviewer {
  const named = { user: `${name}@${tenant}.example`, userId: `u-${name}` }
  return { kind: 'user', identity: { tenant, authenticated: true, ...named, roles: ['reviewer', ...roles] } }
}

export interface RigOptions {
  readonly rule?: Partial<EscalationRule>
  readonly section?: object
  readonly facts?: Partial<PolicyFacts>
  readonly store?: EscalationStore
  readonly clock?: FakeClock
  readonly context?: Partial<PluginContext>
  /** Told of each event before it counts as recorded. */
  readonly record?: (event: GatewayEvent) => Promise<void> | void
  readonly redactor?: Redactor
}

interface CallOptions {
  readonly caller?: Identity
  readonly args?: CallRequest['args']
  readonly findings?: readonly Finding[]
  readonly headers?: Record<string, string>
  readonly request?: Partial<CallRequest>
  readonly tool?: string
  readonly redactor?: Redactor
}

export interface EscalationRig extends AsyncDisposable {
  readonly stage: Stage
  readonly service: EscalationService
  readonly clock: FakeClock
  readonly context: FakeContext
  readonly events: GatewayEvent[]
  /** What was counted. */
  readonly counted: string[]
  /** The calls that reached the upstream. */
  readonly sent: Call[]
  call(options?: CallOptions): Promise<Outcome>
  /** Through the stage, but not sent by this: as by a stage behind it. */
  through(call: Call, next: () => Promise<Outcome>): Promise<Outcome>
  make(options?: CallOptions): Call
}

export async function startRig(options: RigOptions = {}): Promise<EscalationRig> {
  const clock = options.clock ?? new FakeClock()
  const events: GatewayEvent[] = []
  const sent: Call[] = []
  const provided = new Map<symbol, unknown>([
    [
      services.record,
      async (event: GatewayEvent) => {
        await options.record?.(event)
        events.push(event)
      },
    ],
    [services.redactor, options.redactor],
  ])
  const context = fakeContext('/nowhere', {
    facts: {
      escalation: { ...rule, ...options.rule },
      reviewers: { roles: ['reviewer'], approvalSets: {} },
      hasOidc: true,
      ...options.facts,
    },
    service: <T>(service: Token<T>) => provided.get(service) as T | undefined,
    ...options.context,
  })
  bind(context.container, tokens.Clock, { useValue: clock })
  const counted: string[] = []
  bind(context.container, tokens.Meter, { useValue: { count: (name) => void counted.push(name) } })
  // Those of two rigs must differ.
  const hex = (bytes: number) => randomBytes(bytes).toString('hex')
  bind(context.container, tokens.Ids, { useValue: { traceId: () => hex(16), spanId: () => hex(8) } })
  if (options.store !== undefined)
    bind(context.container, tokens.EscalationStore, { useValue: options.store })
  const section = {
    escalate_on: [risky.reason],
    escalations: options.context?.stateDir === undefined ? { adapter: 'memory' } : {},
    ...options.section,
  }
  const stage = createStage(enforcementPlugin, section, context)
  await stage.start?.(new AbortController().signal)
  const service = stage.offer?.(services.escalations)
  if (service === undefined) throw new Error('enforcement offers no service')

  const make = ({
    caller: by = caller,
    findings = [risky],
    redactor: redacts,
    ...given
  }: CallOptions = {}) => {
    const call = makeCall({ trace: { spanId: spanOf(++calls) }, ...given })
    call.set(identity, by)
    if (redacts !== undefined) call.set(redactor, redacts)
    for (const finding of findings) call.addFinding(finding)
    return call
  }
  const through = async (call: Call, next: () => Promise<Outcome>): Promise<Outcome> => {
    const outcome = await stage.handle(call, next)
    if (outcome.sent === 'no') await call.releaseHolds()
    return outcome
  }
  return {
    stage,
    service,
    clock,
    context,
    events,
    counted,
    sent,
    make,
    through,
    async call(given) {
      const call = make(given)
      return through(call, async () => {
        const refused = await call.commitHolds()
        if (refused !== undefined) return refused
        sent.push(call)
        return { kind: 'completed', sent: 'yes', status: 200, headers: {}, body: new Uint8Array() }
      })
    },
    async [Symbol.asyncDispose]() {
      await stage.stop?.()
    },
  }
}

let calls = 0

function spanOf(n: number): string {
  return n.toString(16).padStart(16, '0')
}

/** The code and the escalation of a refusal; `sent` for a call that was let through. */
export function summaryOf(outcome: Outcome): { code: string; id?: string; status?: string } {
  if (outcome.kind === 'completed') return { code: 'sent' }
  const { escalation } = outcome.kind === 'denied' ? outcome : {}
  return { code: outcome.code, ...(escalation === undefined ? {} : escalation) }
}

/** The id of the escalation that the outcome names. */
export function idOf(outcome: Outcome): string {
  const { id } = summaryOf(outcome)
  if (id === undefined) throw new Error(`no escalation: ${JSON.stringify(summaryOf(outcome))}`)
  return id
}
