// Labels callers by what they got, and judges what labelled callers do. A label stands in the store before the response leaves.
import {
  after,
  type Call,
  type CallRequest,
  callLabels,
  type Denied,
  denialBy,
  type Finding,
  identity,
  type MaybePromise,
  type Next,
  type Outcome,
  type PluginContext,
  principalKeyOf,
  resolve,
  resolveOptional,
  type Stage,
  tokens,
  verdict,
} from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import { type ResponseRewriter, rewriteOutcome } from '@svc/core/response'
import { type OpenMaps, openMaps } from '../shared/store.js'
import { detectorsIn } from '../text/detectors.js'
import { OVERLAP } from '../text/texts.js'
import type { FlowsConfig } from './config.js'
import { type LabelCause, Labels } from './labels.js'
import { type Flow, FlowRules, isWriting } from './rules.js'

export const flowReasons = ['flow_denied', 'flow_label'] as const

interface Open {
  readonly maps: OpenMaps
  readonly labels: Labels
}

export class FlowsStage implements Stage {
  #config: FlowsConfig
  #context: PluginContext
  #rules: FlowRules
  #open: Open | undefined

  constructor(config: FlowsConfig, others: readonly string[], context: PluginContext) {
    this.#config = config
    this.#context = context
    this.#rules = new FlowRules(config, others)
  }

  async start(): Promise<void> {
    const maps = await openMaps(this.#context)
    this.#open = { maps, labels: new Labels(maps, this.#rules.labels, this.#config.for_seconds * 1000) }
  }

  async stop(): Promise<void> {
    const open = this.#open
    this.#open = undefined
    await open?.maps.close()
  }

  handle(call: Call, next: Next): MaybePromise<Outcome> {
    return after(call.request(), (request) => {
      if (request.kind === 'protocol')
        return after(next(), (outcome) => this.#labelled(call, request, outcome))
      return this.#judged(call, request)
        .then(next)
        .then((outcome) => this.#labelled(call, request, outcome))
    })
  }

  async explain(call: Call, next: Next, say: (line: string) => void): Promise<Outcome> {
    const request = await call.request()
    const flows = this.#rules.flowsTo(call, request)
    for (const { from, to } of flows)
      say(`a caller with the label ${from} may not use the sink ${to} (${this.#config.effect})`)
    const labels = this.#rules.labelsOf(request)
    say(
      labels.length === 0
        ? 'the response has no label by its tool'
        : `the response has the labels ${labels.join(', ')}`,
    )
    return next()
  }

  /** @throws {Error} before the start and after the stop */
  get #labels(): Labels {
    if (this.#open === undefined) throw new Error('the store of labels is not open')
    return this.#open.labels
  }

  async #judged(call: Call, request: CallRequest): Promise<void> {
    const flows = this.#rules.flowsTo(call, request)
    const isWrite = isWriting(call, request)
    if (flows.length === 0 && !isWrite) return
    const held = await this.#labels.of(this.#unitOf(call))
    const found = flows.filter(({ from }) => held.has(from))
    for (const flow of found) call.addFinding(this.#findingOf(flow, held))
    call.hold({ commit: () => this.#commit(call, request, flows, found), release: () => undefined })
  }

  /**
   * Directly before the send: a label that the caller got while the call waited was not judged, and what a labelled caller
   * writes labels what the server returns from then on.
   */
  async #commit(
    call: Call,
    request: CallRequest,
    flows: readonly Flow[],
    judged: readonly Flow[],
  ): Promise<Denied | undefined> {
    const held = await this.#labels.of(this.#unitOf(call))
    const [late, ...others] = flows.filter((flow) => held.has(flow.from) && !judged.includes(flow))
    if (late !== undefined && this.#config.effect !== 'report' && call.get(verdict)?.mode !== 'observe')
      return denialBy([this.#findingOf(late, held), ...others.map((flow) => this.#findingOf(flow, held))])
    if (isWriting(call, request)) await this.#labels.give(serverKey(request.server), held)
    return undefined
  }

  #findingOf({ from, to, approval }: Flow, held: ReadonlyMap<string, LabelCause>): Finding {
    const cause = held.get(from)
    const since =
      cause === undefined ? '' : `, since ${cause.at} by ${cause.reference} (trace ${cause.traceId})`
    const { effect } = this.#config
    return {
      ...findingOf('flow_denied', `${from} -> ${to}: the caller has the label ${from}${since}`),
      ruling: effect,
      ...(effect === 'escalate' ? { approval } : {}),
    }
  }

  async #labelled(call: Call, request: CallRequest, outcome: Outcome): Promise<Outcome> {
    if (outcome.kind !== 'completed') return outcome
    const given =
      request.kind === 'protocol' ? [] : [...this.#rules.labelsOf(request), ...(call.get(callLabels) ?? [])]
    const kept = await this.#labels.of(serverKey(request.server))
    await this.#give(call, request, new Set(given), kept)
    const detected = this.#rules.detectedLabels(request)
    if (detected.length === 0) return outcome
    return rewriteOutcome(call, request, outcome, this.#observer(call, request, detected))
  }

  async #give(
    call: Call,
    request: CallRequest,
    names: ReadonlySet<string>,
    inherited: ReadonlyMap<string, LabelCause> = new Map(),
  ): Promise<void> {
    if (names.size === 0 && inherited.size === 0) return
    const { clock } = this.#parts
    const cause = {
      at: new Date(clock.now()).toISOString(),
      reference: request.reference.slice(0, 256),
      traceId: call.trace.traceId,
    }
    const labels = new Map([...inherited, ...[...names].map((name) => [name, cause] as const)])
    await this.#labels.give(this.#unitOf(call), labels)
    this.#parts.meter?.count('svc_flow_labels_total', labels.size)
    call.addFinding({
      ...findingOf('flow_label', [...labels.keys()].join(', ')),
      isLate: true,
      ruling: 'report',
    })
  }

  /** Changes nothing; each part of a response waits until its labels stand. */
  #observer(
    call: Call,
    request: CallRequest,
    detected: ReturnType<FlowRules['detectedLabels']>,
  ): ResponseRewriter {
    const see = async <T>(value: T): Promise<T> => {
      const found = await detectorsIn(value)
      await this.#give(
        call,
        request,
        new Set(detected.flatMap(([name, label]) => (found.has(name) ? [label] : []))),
      )
      return value
    }
    return {
      result: see,
      error: see,
      message: see,
      json: see,
      text: see,
      unreadable: undefined,
      // What was not read may have all of them.
      unread: async () => {
        await this.#give(call, request, new Set(detected.map(([, label]) => label)))
        return undefined
      },
      spansEvents: false,
      context: OVERLAP,
    }
  }

  get #parts() {
    const { container } = this.#context
    return { clock: resolve(container, tokens.Clock), meter: resolveOptional(container, tokens.Meter) }
  }

  #unitOf(call: Call): string {
    const caller = call.get(identity) ?? { tenant: this.#context.tenant, authenticated: false, roles: [] }
    const { tenant, issuer, userId, user, subject, client, clientId, unit } = caller
    const parts = {
      principal: [principalKeyOf(caller)],
      user: [issuer, userId ?? subject ?? user],
      client: [issuer, client ?? clientId],
      tenant: [],
      // A token without the claim is one of a person at one client.
      claim: unit === undefined ? [null, principalKeyOf(caller)] : [issuer, unit],
    }[this.#config.unit]
    // A caller without a user or a client shares the label of all like it.
    return `unit:${sha256Hex(JSON.stringify([this.#config.unit, tenant, ...parts.map((part) => part ?? null)]))}`
  }
}

function serverKey(server: string): string {
  return `server:${server}`
}

function findingOf(reason: (typeof flowReasons)[number], detail: string): Finding {
  return { reason, stage: 'protections', level: 'gateway', detail }
}
