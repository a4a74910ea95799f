// Every kind of client and effect, and what can happen to a call in any order: seen from outside, a call is sent only with the
// approvals and the confirmation of exactly this call, at most once for each, and whatever happened, the next call works.
import { setTimeout as delay } from 'node:timers/promises'
import { expect } from 'chai'
import { ask } from '../../app/admin/rig.js'
import { Chance } from '../../support/chance.js'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { TestIssuer } from '../../support/issuer.js'
import { propertyRuns } from '../../support/property-runs.js'
import { type RedisServer, startRedis } from '../../support/redis.js'
import {
  type DrivenCall,
  type DrivenClient,
  handshakeClient,
  statelessClient,
  type Tampering,
  tamperings,
} from './callers.js'
import { type Billing, startBilling, waiting } from './rig.js'

const seed = Number(process.env['SVC_SEED'] ?? 20261124)

const revisions = ['2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28'] as const
const capabilities = {
  none: {},
  empty: { elicitation: {} },
  form: { elicitation: { form: {} } },
  url: { elicitation: { url: {} } },
  both: { elicitation: { form: {}, url: {} } },
} as const
const confirm = { name: 'large', tools: ['*/refund'], then: 'confirm', ask: 'Refund {args.amount}?' } as const
const effects = {
  escalate: { rules: waiting.rules },
  'confirm, else deny': { rules: [confirm] },
  'confirm, else escalate': { rules: [{ ...confirm, else: 'escalate' }] },
  both: { rules: [confirm, ...waiting.rules] },
} as const
type EffectName = keyof typeof effects
/** The policy of the other gateway of a deployment has it too. */
const revised = { ...waiting.rules[0], name: 'revised', message: 'Since the last revision.' } as const

const replies: Readonly<Record<string, object>> = {
  accept: { result: { action: 'accept' } },
  tick: { result: { action: 'accept', content: { confirm: true } } },
  'no tick': { result: { action: 'accept', content: { confirm: false } } },
  'a tick that is text': { result: { action: 'accept', content: { confirm: 'true' } } },
  'a tick elsewhere': { result: { action: 'accept', confirm: true, content: [] } },
  decline: { result: { action: 'decline', content: { confirm: true } } },
  cancel: { result: { action: 'cancel' } },
  'an unknown action': { result: { action: 'approve', content: { confirm: true } } },
  'no result': { result: {} },
  'an error': { error: { code: -1, message: 'no' } },
}
const stops = ['cancel', 'leave', 'end the session', 'reuse the id'] as const

type Event =
  | { readonly kind: 'vote'; readonly vote: 'approve' | 'reject' }
  | { readonly kind: 'respond'; readonly reply: string; readonly how: Tampering }
  | { readonly kind: 'stop'; readonly how: (typeof stops)[number] }
  | { readonly kind: 'repeat' | 'repeat in an emergency' }

interface Plan {
  readonly revision: (typeof revisions)[number]
  readonly declared: keyof typeof capabilities
  readonly path: 'one server' | 'all servers'
  /** The server, unless the revision is without sessions. */
  readonly server: 'handshake' | 'sessionless'
  readonly effect: EffectName
  readonly events: readonly Event[]
}

function planOf(chance: Chance): Plan {
  const usual = chance.int(0, 2) === 0 ? 'another policy' : 'none'
  const names = Object.keys(replies) as [string, ...string[]]
  const eventOf = (): Event => {
    const at = chance.int(0, 9)
    if (at < 3) return { kind: 'vote', vote: chance.int(0, 3) === 0 ? 'reject' : 'approve' }
    if (at < 7) {
      const how = chance.int(0, 1) === 0 ? usual : chance.pick(tamperings)
      return { kind: 'respond', reply: chance.int(0, 1) === 0 ? 'tick' : chance.pick(names), how }
    }
    if (at === 7) return { kind: 'stop', how: chance.pick(stops) }
    return { kind: at === 8 ? 'repeat' : 'repeat in an emergency' }
  }
  return {
    revision: chance.pick(['2025-11-25', '2026-07-28', ...revisions]),
    declared: chance.pick(['both', 'both', ...(Object.keys(capabilities) as (keyof typeof capabilities)[])]),
    path: chance.pick(['one server', 'all servers']),
    server: chance.pick(['handshake', 'sessionless']),
    effect: chance.pick(Object.keys(effects) as [EffectName, ...EffectName[]]),
    events: Array.from({ length: chance.int(1, 5) }, eventOf),
  }
}

/** Whether the client can show forms, and pages. */
function modesOf({ declared, revision }: Plan): { readonly form: boolean; readonly url: boolean } {
  const isForm = ['empty', 'form', 'both'].includes(declared)
  return {
    form: isForm && revision >= '2025-06-18',
    url: ['url', 'both'].includes(declared) && revision >= '2025-11-25',
  }
}

const recordsOf = (gateway: TestGateway) =>
  gateway.records() as object[] as {
    readonly policy: { readonly decision: string }
    readonly trace_id: string
  }[]

/** Rejects if a case does not end. */
function within<T>(running: Promise<T>): Promise<T> {
  return Promise.race([
    running,
    delay(10_000, undefined, { ref: false }).then(() => {
      throw new Error('the case does not end')
    }),
  ])
}

describe('calls that wait for a person, under any sequence of events', function () {
  this.timeout(3_600_000)
  let billing: Billing
  let issuer: TestIssuer
  const gateways = new Map<
    EffectName,
    TestGateway & { readonly adminUrl: string; readonly other: TestGateway }
  >()
  let redis: RedisServer
  let cases = 0

  before(async () => {
    billing = await startBilling()
    issuer = await TestIssuer.start()
    redis = await startRedis()
    const shared = { adapter: 'redis', redisUrl: redis.url }
    const start = (rules: readonly object[]): Promise<TestGateway> =>
      startTestGateway({
        targets: billing.urls,
        authn: { oidc: issuer.oidc },
        admin: { port: 0, roles: { reviewer: ['approver'] } },
        security: {
          side_effects: { approve_high_risk: true, human_escalation: { emergency: { roles: ['oncall'] } } },
        },
        server: { mcp: { elicit_ms: 1_000 } },
        quotas: shared,
        enforcement: { escalations: shared },
        rules,
      } as never)
    for (const [name, { rules }] of Object.entries(effects)) {
      const gateway = await start(rules)
      const other = await start([...rules, revised])
      const { adminUrl = '' } = await gateway.handle.ready()
      gateways.set(name as EffectName, Object.assign(gateway, { adminUrl, other }))
    }
  })
  after(async () => {
    for (const gateway of gateways.values()) {
      await gateway.other[Symbol.asyncDispose]()
      await gateway[Symbol.asyncDispose]()
    }
    await redis[Symbol.asyncDispose]()
    await billing[Symbol.asyncDispose]()
    await issuer[Symbol.asyncDispose]()
  })

  const bearer = async (user: string, roles: readonly string[] = []) => ({
    authorization: `Bearer ${await issuer.sign({ sub: user, email: `${user}@example.com`, roles })}`,
  })

  /** The approvals and the confirmations of one amount, as the test gave them. */
  class Given {
    approvals = 0
    ticks = 0
    emergencies = 0
  }

  async function run(plan: Plan): Promise<{ readonly sent: number; readonly refused: readonly object[] }> {
    const number = ++cases
    const gateway = gateways.get(plan.effect)
    if (gateway === undefined) throw new Error('no gateway')
    const isStateless = plan.revision === '2026-07-28'
    const target = isStateless ? 'stateless' : plan.server
    const isOne = plan.path === 'one server'
    const path = `/mcp${isOne ? `/${target}` : ''}`
    const endpoint = {
      url: `${gateway.url}${path}`,
      elsewhere: `${gateway.other.url}${path}`,
      tool: isOne ? 'refund' : `${target}__refund`,
    }
    const rae = await bearer('rae', ['approver'])
    const isOnCall = number % 2 === 0
    const by = {
      headers: await bearer(`ada${number}`, isOnCall ? ['oncall'] : []),
      other: await bearer(`bob${number}`),
      capabilities: capabilities[plan.declared],
      revision: plan.revision,
    }
    const connect = (): Promise<DrivenClient> =>
      (isStateless ? statelessClient : handshakeClient)(endpoint, by)
    const amount = number * 10
    const calls: DrivenCall[] = []
    const given = new Given()
    const counted = new Set<string>()
    const vote = async (call: DrivenCall, choice: 'approve' | 'reject'): Promise<void> => {
      for (const id of call.escalations) {
        const { status } = await ask(gateway.adminUrl, `/api/escalations/${id}/votes`, {
          method: 'POST',
          headers: { ...rae, 'content-type': 'application/json' },
          body: JSON.stringify({ vote: choice }),
        })
        if (status !== 200) continue
        if (choice === 'approve') given.approvals++
        await call.settle()
      }
    }
    const respond = async (call: DrivenCall, reply: string, how: Tampering): Promise<void> => {
      const asked = call.asked()
      if (asked === undefined) return
      const isForm = asked.mode === 'form'
      const isOwn = [
        'none',
        'twice',
        'other _meta',
        'another policy',
        ...(isStateless ? ['another session', 'an earlier state'] : ['another amount', 'more responses']),
      ]
      // A confirmation counts once for each form.
      const form = call.formOf(how)
      if (isForm && reply === 'tick' && isOwn.includes(how) && !counted.has(form)) {
        counted.add(form)
        given.ticks++
      }
      const before = call.responses.length
      await call.respond(replies[reply] ?? {}, how)
      const hasEffect = isForm || !['accept', 'tick', 'no tick'].includes(reply)
      if (!isStateless && isOwn.includes(how) && hasEffect && call.responses.length === before)
        await call.settle()
    }
    let client = await connect()
    calls.push(await client.begin(amount))
    for (const event of plan.events) {
      const call = calls.at(-1)
      if (call === undefined) throw new Error('no call')
      if (event.kind === 'vote') await vote(call, event.vote)
      else if (event.kind === 'respond') await respond(call, event.reply, event.how)
      else if (event.kind === 'stop') {
        await call.stop(event.how)
        if (event.how === 'end the session') client = await connect()
      } else {
        const isEmergency = event.kind === 'repeat in an emergency'
        if (isEmergency && isOnCall) given.emergencies++
        calls.push(
          await client.begin(amount, isEmergency ? { 'svc/escalation-emergency': 'on fire' } : undefined),
        )
      }
    }
    for (const call of calls) await call.stop('leave')
    const { form, url } = modesOf(plan)
    const needsTick = plan.effect !== 'escalate' && (form || plan.effect === 'confirm, else deny')
    const needsApproval =
      plan.effect === 'escalate' ||
      plan.effect === 'both' ||
      (plan.effect === 'confirm, else escalate' && !form)
    const isEver = !(plan.effect !== 'escalate' && !form && plan.effect !== 'confirm, else escalate')
    const of = (one: number) => billing.refunds.filter((sum) => sum === one).length
    const most = Math.min(
      needsTick ? (isEver ? given.ticks : 0) : Number.POSITIVE_INFINITY,
      needsApproval ? given.approvals + given.emergencies : Number.POSITIVE_INFINITY,
    )
    expect(of(amount), 'sent, with its approvals and confirmations').to.be.at.most(most)
    expect(of(amount + 1), 'sent with other arguments').to.equal(0)
    // Whatever has happened, the next call of a client works.
    client = await connect()
    const next = amount + 2
    let last = await client.begin(next)
    calls.push(last)
    for (let step = 0; step < 6 && of(next) === 0; step++) {
      const asked = last.asked()
      if (asked?.mode === 'form') await respond(last, 'tick', 'none')
      else {
        await vote(last, 'approve')
        if (asked?.mode === 'url') await respond(last, 'accept', 'none')
        if (of(next) === 1 || last.asked()?.mode === 'form') continue
        last = await client.begin(next)
        calls.push(last)
      }
    }
    expect(of(next), `the next call, by ${url ? 'page' : 'text'}`).to.equal(isEver ? 1 : 0)
    const refused = calls.flatMap(({ responses }) => responses.flatMap(({ error }) => error ?? []))
    for (const { code, message } of refused) {
      expect(code).to.be.a('number')
      expect(message).to.match(/\S{3}/)
    }
    return { sent: of(amount), refused }
  }

  it('are sent only with what exactly they need, and at most once for it', async () => {
    const chance = new Chance(seed)
    const plans = Array.from({ length: propertyRuns(48) }, () => planOf(chance))
    const queue = [...plans.entries()]
    const found: string[] = []
    const traces: string[] = []
    let sent = 0
    const work = async (): Promise<void> => {
      for (let next = queue.shift(); next !== undefined && found.length < 5; next = queue.shift()) {
        const [at, plan] = next
        try {
          const done = await within(run(plan))
          sent += done.sent
          for (const error of done.refused as { data?: { trace_id?: string } }[])
            traces.push(...[error.data?.trace_id ?? []].flat())
        } catch (error) {
          found.push(`SVC_SEED=${seed} case ${at} ${JSON.stringify(plan)}: ${(error as Error).message}`)
        }
      }
    }
    await Promise.all(Array.from({ length: 12 }, work))
    expect(found).to.deep.equal([])
    expect(sent).to.be.at.least(plans.length / 20)
    const all = [...gateways.values()]
    const records = all.flatMap((gateway) => [...recordsOf(gateway), ...recordsOf(gateway.other)])
    const denied = new Set(
      records.filter(({ policy }) => policy.decision === 'deny').map(({ trace_id }) => trace_id),
    )
    expect(traces.filter((id) => !denied.has(id))).to.deep.equal([])
  })
})
