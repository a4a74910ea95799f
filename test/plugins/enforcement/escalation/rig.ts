// An enforcement stage that escalates, in front of an upstream.

import { randomBytes } from 'node:crypto'
import {
  type Call,
  type EscalationRule,
  type Finding,
  type GatewayEvent,
  type Identity,
  type KeyValueStore,
  type Notice,
  type Outcome,
  type PluginContext,
  type Redactor,
  type Reviewer,
  redactor,
  type Stage,
  services,
  type Token,
  tokens,
} from '@svc/core'
import { beginDispatch, endDispatch, releaseHolds } from '@svc/core/pipeline'
import { RedisKeyValueStore } from '@svc/core/redis'
import { MemoryKeyValueStore } from '@svc/core/store'
import {
  type EscalationService,
  EscalationStore,
  enforcementPlugin,
  escalationService,
} from '@svc/plugin-enforcement'
import { FakeClock } from 'svc-sdk/testing'
import { type CallOverrides, controlOf, makeCall } from '../../../support/call.js'
import { bindPolicy, type PolicyValues } from '../../../support/check.js'
import { StageRig, served } from '../../../support/stage-rig.js'

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

/** A store in memory, and what lies in it; rigs that are given it have its clock, unless they have another. */
export class TestStore extends MemoryKeyValueStore {
  readonly clock: FakeClock
  readonly entries: EscalationStore

  constructor(clock = new FakeClock()) {
    super({ clock })
    this.clock = clock
    this.entries = new EscalationStore(this)
  }
}

/** A store in Redis whose time is that of the clock, which a test can advance. */
export function redisStore(url: string, clock: FakeClock): RedisKeyValueStore {
  const store = new RedisKeyValueStore({ url, keyPrefix: 'svc:escalations:', clock })
  return Object.assign(store, { now: () => clock.now() })
}

export interface RigOptions {
  readonly rule?: Partial<EscalationRule>
  readonly section?: object
  readonly policy?: PolicyValues
  readonly store?: KeyValueStore
  readonly clock?: FakeClock
  readonly context?: Partial<PluginContext>
  /** Called with each event before it counts as recorded. */
  readonly record?: (event: GatewayEvent) => Promise<void> | void
  readonly redactor?: Redactor
  readonly bindings?: readonly (readonly [Token<unknown>, unknown])[]
}

interface CallOptions extends CallOverrides {
  readonly redactor?: Redactor
}

export interface EscalationRig extends AsyncDisposable {
  readonly stage: Stage
  readonly service: EscalationService
  readonly clock: FakeClock
  readonly events: GatewayEvent[]
  readonly notices: Notice[]
  /** The counters that were incremented, in order. */
  readonly counted: string[]
  /** The value of a gauge. */
  level(name: string): number | undefined
  /** The calls that reached the upstream. */
  readonly sent: Call[]
  call(options?: CallOptions): Promise<Outcome>
  /** Sends the call through the stage to `next`, in place of the upstream of this rig. */
  through(call: Call, next?: () => Promise<Outcome>): Promise<Outcome>
  make(options?: CallOptions): Call
}

export async function startRig(options: RigOptions = {}): Promise<EscalationRig> {
  const events: GatewayEvent[] = []
  const notices: Notice[] = []
  const sent: Call[] = []
  const { store } = options
  const rig = new StageRig(
    options.context,
    options.clock ?? (store instanceof TestStore ? store.clock : undefined),
  )
  bindPolicy(rig.context.container, {
    escalationRule: { ...rule, ...options.rule },
    host: { reviewers: { roles: ['reviewer'], approvalSets: {} } },
    knowsUsers: true,
    ...options.policy,
  })
  // The ids of two rigs must differ.
  const hex = (bytes: number) => randomBytes(bytes).toString('hex')
  rig.bind(services.record, async (event) => {
    await options.record?.(event)
    events.push(event)
  })
  rig.bind(tokens.Notices, { send: (notice) => void notices.push(notice) })
  for (const [token, value] of options.bindings ?? []) rig.bind(token, value)
  if (options.redactor !== undefined) rig.bind(services.redactor, options.redactor)
  rig.bind(tokens.Ids, { traceId: () => hex(16), spanId: () => hex(8) })
  if (store !== undefined) rig.bind(tokens.EscalationStore, store)
  const stage = await rig.start(enforcementPlugin, {
    escalate_on: [risky.reason],
    escalations: options.context?.stateDir === undefined ? { adapter: 'memory' } : {},
    ...options.section,
  })
  const service = rig.serviceOf(stage, escalationService)
  if (service === undefined) throw new Error('enforcement offers no service')

  const make = ({ redactor: redacts, ...given }: CallOptions = {}) => {
    const call = makeCall({ caller, findings: [risky], trace: { spanId: spanOf(++calls) }, ...given })
    if (redacts !== undefined) call.set(redactor, redacts)
    return call
  }
  const through = async (call: Call, next: () => Promise<Outcome> = async () => served): Promise<Outcome> => {
    const control = controlOf(call)
    const outcome = await stage.handle(
      call,
      async () => control[beginDispatch]() ?? control[endDispatch](await next()),
    )
    if (call.sent === 'no') await control[releaseHolds]()
    return outcome
  }
  return {
    stage,
    service,
    clock: rig.clock,
    events,
    notices,
    counted: rig.meter.counted,
    level: (name) => rig.meter.read(name),
    sent,
    make,
    through,
    async call(given) {
      const call = make(given)
      return through(call, async () => {
        const refused = await controlOf(call).commitHolds()
        if (refused !== undefined) return refused
        sent.push(call)
        return served
      })
    },
    [Symbol.asyncDispose]: () => rig[Symbol.asyncDispose](),
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
