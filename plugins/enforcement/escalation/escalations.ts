// Escalation as a part of the stage: opened and closed with it, swept while it runs.
import {
  type Call,
  type Clock,
  type Denied,
  type EscalationDesk,
  type EscalationRule,
  type Finding,
  type Lease,
  type PluginContext,
  resolve,
  resolveOptional,
  services,
  tokens,
} from '@svc/core'
import { Cases } from './cases.js'
import type { EscalationsConfig } from './config.js'
import { Desk } from './desk.js'
import { Gate } from './gate.js'
import { type OpenStore, openStore } from './open-store.js'
import { Steps } from './steps.js'

/** Milliseconds between two looks for escalations whose time is over; whoever looks one up decides it earlier. */
const SWEEP_MS = 5000

interface Opened {
  readonly lease: Lease<OpenStore>
  readonly cases: Cases
  readonly desk: Desk
  readonly gate: Gate
  readonly sweeper: NodeJS.Timeout
}

export class Escalations {
  #rule: EscalationRule
  #config: EscalationsConfig
  #context: PluginContext
  #opened: Opened | undefined
  #sweeping: Promise<void> | undefined

  constructor(rule: EscalationRule, config: EscalationsConfig, context: PluginContext) {
    this.#rule = rule
    this.#config = config
    this.#context = context
  }

  async start(signal: AbortSignal): Promise<void> {
    if (this.#opened !== undefined) return
    const { container, service, tenant, facts } = this.#context
    const record = service?.(services.record)
    if (record === undefined) throw new Error('escalations must be recorded, and no stage records them')
    const clock = resolve<Clock>(container, tokens.Clock)
    const logger = resolveOptional(container, tokens.Logger)
    const lease = await openStore(this.#config, this.#context, { clock, signal })
    const { store, waiters } = lease.value
    const steps = new Steps(record, resolveOptional(container, tokens.Meter))
    const cases = new Cases({ store, clock, steps, waiters, logger })
    const desk = new Desk({ cases, steps, waiters, facts, redactor: () => service?.(services.redactor) })
    const gate = new Gate({
      rule: this.#rule,
      cases,
      steps,
      desk,
      ids: resolve(container, tokens.Ids),
      tenant,
      maxWaitMs: this.#config.max_wait_sec * 1000,
    })
    const sweeper = setInterval(() => {
      this.sweep().catch((err: unknown) => logger?.error({ err }, 'escalations could not be looked through'))
    }, SWEEP_MS)
    this.#opened = { lease, cases, desk, gate, sweeper: sweeper.unref() }
  }

  async stop(): Promise<void> {
    const opened = this.#opened
    this.#opened = undefined
    if (opened === undefined) return
    clearInterval(opened.sweeper)
    // Its own fault it tells itself.
    await this.#sweeping?.catch(() => undefined)
    await opened.lease.release()
  }

  ready(): string | undefined {
    return this.#opened === undefined
      ? 'the escalation store is not open'
      : this.#opened.lease.value.store.ready?.()
  }

  get desk(): EscalationDesk | undefined {
    return this.#opened?.desk
  }

  /** Undefined lets the call through. Rejects with `Refusal`. */
  admit(call: Call, findings: readonly Finding[]): Promise<Denied | undefined> {
    if (this.#opened === undefined) throw new Error('the enforcement stage has not started')
    return this.#opened.gate.admit(call, findings)
  }

  /** Decides what the time has decided. One at a time. */
  async sweep(): Promise<void> {
    this.#sweeping ??= this.#opened?.cases.sweep().finally(() => {
      this.#sweeping = undefined
    })
    await this.#sweeping
  }
}
