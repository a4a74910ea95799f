// Labels callers by what they got, and judges what labelled callers do. A label stands in the store before the response leaves.
import {
  after,
  type Call,
  type CallRequest,
  callLabels,
  type Denied,
  denialBy,
  type Finding,
  type Identity,
  identity,
  isStream,
  judgedOnly,
  type MaybePromise,
  type Next,
  type Outcome,
  type PluginContext,
  principalKeyOf,
  resolve,
  resolveOptional,
  responseChange,
  type Stage,
  tokens,
  verdict,
} from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import { isEventStream, rewriteOutcome } from '@svc/core/response'
import { type OpenMaps, openMaps } from '../shared/store.js'
import type { FlowsConfig } from './config.js'
import { type CallerLabels, Labels } from './labels.js'
import { ResponseLabels } from './response-labels.js'
import { type Flow, FlowRules, isWriting, maySend } from './rules.js'

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
    const { clock } = this.#parts
    this.#open = {
      maps,
      labels: new Labels(maps, this.#rules.labels, this.#config.for_seconds * 1000, clock),
    }
  }

  async stop(): Promise<void> {
    const open = this.#open
    this.#open = undefined
    await open?.maps.close()
  }

  handle(call: Call, next: Next): MaybePromise<Outcome> {
    return after(call.request(), (request) => {
      if (call.isNoted) this.#explain(call, request)
      if (!maySend(request)) return after(next(), (outcome) => this.#labelled(call, request, outcome))
      return this.#judged(call, request)
        .then(next)
        .then((outcome) => this.#labelled(call, request, outcome))
    })
  }

  #explain(call: Call, request: CallRequest): void {
    for (const { from, to } of this.#rules.flowsTo(call, request))
      call.note(`a caller with the label ${from} may not use the sink ${to} (${this.#config.effect})`)
    const labels = this.#rules.labelsOf(request)
    const own = labels.length === 0 ? 'no label by its tool' : `the labels ${labels.join(', ')}`
    call.note(`the response has ${own}`)
    if (call.get(judgedOnly) !== undefined) call.note('assumes that the caller has no label')
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
    if (late !== undefined && this.#isEnforced(call))
      return denialBy([this.#findingOf(late, held), ...others.map((flow) => this.#findingOf(flow, held))])
    if (isWriting(call, request)) await this.#labels.pass(this.#serverOf(call, request), held)
    return undefined
  }

  #findingOf({ from, to, approval }: Flow, held: CallerLabels): Finding {
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
    const given = request.kind === 'protocol' ? [] : (call.get(callLabels) ?? [])
    const detected = this.#rules.detectedLabels(request)
    const labels = new ResponseLabels({
      call,
      request,
      labels: this.#labels,
      holder: this.#unitOf(call),
      server: this.#serverOf(call, request),
      always: [...this.#rules.labelsOf(request), ...given],
      detected,
      ...this.#parts,
    })
    const isLabelled = await labels.give()
    // A resumed stream would have the response without its labels.
    if ((isLabelled || detected.length > 0) && this.#isEnforced(call)) call.set(responseChange, true)
    const isOpen = isStream(outcome.body) && isEventStream(outcome)
    return isOpen || detected.length > 0 ? rewriteOutcome(call, request, outcome, labels.observer()) : outcome
  }

  #isEnforced(call: Call): boolean {
    return this.#config.effect !== 'report' && call.get(verdict)?.mode !== 'observe'
  }

  get #parts() {
    const { container } = this.#context
    return { clock: resolve(container, tokens.Clock), meter: resolveOptional(container, tokens.Meter) }
  }

  #callerOf(call: Call): Identity {
    return call.get(identity) ?? { tenant: this.#context.tenant, authenticated: false, roles: [] }
  }

  /** The data that one tenant writes to a server labels only what the same tenant reads there. */
  #serverOf(call: Call, { server }: CallRequest): string {
    return `server:${JSON.stringify([this.#callerOf(call).tenant, server])}`
  }

  #unitOf(call: Call): string {
    const caller = this.#callerOf(call)
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

function findingOf(reason: (typeof flowReasons)[number], detail: string): Finding {
  return { reason, stage: 'protections', level: 'gateway', detail }
}
