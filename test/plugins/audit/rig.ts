// An audit stage whose records are collected in place of a log.
import { type Appender, type Call, type Outcome, type PluginContext, type Stage, tokens } from '@svc/core'
import { type Dispatch, Pipeline } from '@svc/core/pipeline'
import { auditPlugin } from '@svc/plugin-audit'
import type { AuditEnvelope, RawPayloadRecord } from '@svc/plugin-audit/log'
import { FakeClock } from 'svc-sdk/testing'
import { controlOf } from '../../support/call.js'
import { StageRig } from '../../support/stage-rig.js'

export class AuditRig extends StageRig {
  readonly records: AuditEnvelope[] = []
  readonly payloads: RawPayloadRecord[] = []
  readonly #stop: (() => Promise<void>)[] = []

  /** `writer` overrides what collects the records; `now` is the time of the clock. */
  constructor(writer: Partial<Appender> = {}, context: Partial<PluginContext> = {}, now = 0) {
    super({ policySha256: 'p'.repeat(64), ...context }, new FakeClock(now))
    this.bind<Appender>(tokens.SvcAppender, {
      append: async (record) => void this.records.push(record as AuditEnvelope),
      appendRawPayload: async (record) => void this.payloads.push(record as RawPayloadRecord),
      ...writer,
    })
  }

  stage(section: object = {}): Stage {
    return this.create(auditPlugin, { gatewayName: 'gw', gatewayVersion: '2.0.0', ...section })
  }

  /** The result sends a call through the started stage to the upstream. */
  async pipeline(section: object, upstream: Dispatch): Promise<(call: Call) => Promise<Outcome>> {
    const pipeline = new Pipeline([{ name: 'audit', stage: this.stage(section) }], async (call) => {
      await call.request()
      return upstream(call)
    })
    await pipeline.start()
    this.#stop.push(() => pipeline.stop())
    return (call) => pipeline.run(controlOf(call))
  }

  /** Like `pipeline`, for an outcome that is given with each call. */
  async runner(section: object = {}): Promise<(call: Call, outcome: Outcome) => Promise<Outcome>> {
    const outcomes = new WeakMap<Call, Outcome>()
    const run = await this.pipeline(section, async (call) => {
      const outcome = outcomes.get(call)
      if (outcome === undefined) throw new Error('the call has no outcome')
      return outcome
    })
    return (call, outcome) => {
      outcomes.set(call, outcome)
      return run(call)
    }
  }

  /** Stops the stage, which writes what it still holds. */
  async stop(): Promise<void> {
    for (const stop of this.#stop.splice(0)) await stop()
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
    await super[Symbol.asyncDispose]()
  }
}
