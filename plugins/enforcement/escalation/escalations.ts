// The escalation part of the stage: started and stopped with it; sweeps for steps that are due.
import {
  type Call,
  type Denied,
  type DoctorCheck,
  type EscalationRule,
  type FindingList,
  type PluginContext,
  resolve,
  resolveOptional,
  type StageHealth,
  services,
  type ToolLists,
  tokens,
} from '@svc/core'
import type { StoreResource } from '@svc/core/store'
import type { EscalationStore } from '../store/entries.js'
import type { EscalationHandler } from './handler.js'
import type { EscalationRepository } from './repository.js'
import type { EscalationService } from './service.js'
import type { VotingService } from './voting-service.js'

/** Sweeps from one count of open reviews to the next. */
const SWEEPS_PER_COUNT = 12
/** Open reviews that are counted at most. */
const MAX_COUNTED = 10_000
/** Milliseconds between two sweeps; an escalation that is read takes a step that is due at once. */
const SWEEP_MS = 5000

interface OpenEscalations {
  readonly repository: EscalationRepository
  readonly service: VotingService
  readonly handler: EscalationHandler
  readonly sweeper: NodeJS.Timeout
  /** The number of the store's open reviews, which survives a reload with it. */
  readonly reviews: { open: number }
  readonly unwatch: (() => void) | undefined
}

interface EscalationsOptions {
  readonly rule: EscalationRule
  readonly store: StoreResource<EscalationStore>
  /** Longest wait of a caller for a decision, in milliseconds. */
  readonly maxWaitMs: number
  readonly lists: ToolLists | undefined
}

export class Escalations {
  #options: EscalationsOptions
  #context: PluginContext
  #open: OpenEscalations | undefined
  #sweeping: Promise<void> | undefined
  #sweeps = 0

  constructor(options: EscalationsOptions, context: PluginContext) {
    this.#options = options
    this.#context = context
  }

  async start(signal: AbortSignal): Promise<void> {
    if (this.#open !== undefined) return
    const { container, tenant, policySha256 } = this.#context
    const record = resolveOptional(container, services.record)
    if (record === undefined) throw new Error('escalations must be recorded, and no stage records them')
    const { rule, store: resource, maxWaitMs, lists } = this.#options
    await resource.start(signal)
    // Most policies escalate nothing.
    const [
      { EscalationEvents },
      { EscalationHandler },
      { EscalationRepository, Waiters },
      { VotingService },
    ] = await Promise.all([
      import('./events.js'),
      import('./handler.js'),
      import('./repository.js'),
      import('./voting-service.js'),
    ])
    const store = resource.running
    const waiters = resource.attach('waiters', () => ({ value: new Waiters(), close: () => undefined }))
    const reviews = resource.attach('open reviews', () => ({ value: { open: 0 }, close: () => undefined }))
    const logger = resolveOptional(container, tokens.Logger)
    const meter = resolveOptional(container, tokens.Meter)
    const unwatch = meter?.watch?.('svc_escalation_reviews_open', () => reviews.open)
    const events = new EscalationEvents(
      record,
      meter,
      resolveOptional(container, tokens.Notices),
      resolveOptional(container, services.approvalPage),
    )
    const { clock } = resource
    const repository = new EscalationRepository({ store, clock, events, waiters, logger })
    const redactor = () => resolveOptional(container, services.redactor)
    const ids = resolve(container, tokens.Ids)
    const service = new VotingService({ rule, ids, clock, repository, events, waiters, container, redactor })
    const handler = new EscalationHandler({
      rule,
      repository,
      events,
      service,
      ids,
      policySha256,
      tenant,
      maxWaitMs,
      lists,
    })
    const sweeper = setInterval(() => {
      this.sweep().catch((err: unknown) =>
        logger?.error({ err }, 'the sweep for steps of escalations failed'),
      )
    }, SWEEP_MS)
    this.#open = { repository, service, handler, sweeper: sweeper.unref(), reviews, unwatch }
  }

  async stop(): Promise<void> {
    clearInterval(this.#open?.sweeper)
    this.#open?.unwatch?.()
    this.#open = undefined
    // The interval logs its own errors.
    await this.#sweeping?.catch(() => undefined)
    await this.#options.store.stop()
  }

  health(): StageHealth | undefined {
    return this.#options.store.health()
  }

  doctor(): Promise<readonly DoctorCheck[]> {
    return this.#options.store.doctor()
  }

  /** Throws before the start. */
  get service(): EscalationService {
    return this.#running.service
  }

  /** Undefined lets the call through. Rejects with `Refusal`. */
  admit(call: Call, findings: FindingList): Promise<Denied | undefined> {
    return this.#running.handler.admit(call, findings)
  }

  get #running(): OpenEscalations {
    if (this.#open === undefined) throw new Error('the enforcement stage has not started')
    return this.#open
  }

  /** Takes the steps of escalations that are due. One sweep runs at a time. */
  async sweep(): Promise<void> {
    this.#sweeping ??= this.#sweep().finally(() => {
      this.#sweeping = undefined
    })
    await this.#sweeping
  }

  async #sweep(): Promise<void> {
    if (this.#open === undefined) return
    const { repository, service, reviews } = this.#open
    service.dropExpired()
    await repository.sweep()
    const isDue = this.#sweeps++ % SWEEPS_PER_COUNT === 0
    // A policy that allows no emergencies may have had some; its first sweep tells.
    const hasReviews = this.#options.rule.emergency !== undefined || reviews.open > 0 || this.#sweeps === 1
    if (isDue && hasReviews)
      reviews.open = (await service.list({ review: 'open', limit: MAX_COUNTED })).length
  }
}
