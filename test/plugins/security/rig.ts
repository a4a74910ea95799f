// Sends calls through the security stage, alone or with the enforcement stage.
import type { Call, Completed, Outcome, ResponseStream, Stage } from '@svc/core'
import { type Dispatch, Pipeline, type PlacedStage } from '@svc/core/pipeline'
import { enforcementPlugin } from '@svc/plugin-enforcement'
import { securityPlugin } from '@svc/plugin-security'
import { controlOf } from '../../support/call.js'
import { StageRig, served } from '../../support/stage-rig.js'

export function responseOf(body: Completed['body'], headers: Completed['headers'] = {}): Completed {
  return { ...served, headers, body }
}

export function securityStage(section: object, rig = new StageRig()): Stage {
  return rig.create(securityPlugin, section)
}

export interface Sections {
  readonly security: object
  readonly enforcement?: object
  /** Stages between security and enforcement. */
  readonly between?: PlacedStage
  /** Of the security stage. */
  readonly rig?: StageRig
}

/** Runs the call in a pipeline with security outside enforcement, as in the gateway. */
export function run(
  { security, enforcement = {}, between, rig }: Sections,
  call: Call,
  upstream: Dispatch = async () => served,
): Promise<Outcome> {
  const stages: PlacedStage[] = [
    { name: 'security', stage: securityStage(security, rig) },
    ...(between === undefined ? [] : [between]),
    { name: 'enforcement', stage: new StageRig().create(enforcementPlugin, enforcement) },
  ]
  return new Pipeline(stages, upstream).run(controlOf(call))
}

/** A streamed body; `closed` tells whether its source was closed. */
export function streamOf(...sizes: number[]): ResponseStream & { closed: boolean; read: number } {
  const body = {
    closed: false,
    read: 0,
    async *[Symbol.asyncIterator]() {
      try {
        for (const size of sizes) {
          body.read++
          yield { bytes: new Uint8Array(size) }
        }
      } finally {
        body.closed = true
      }
    },
  }
  return body
}

export async function bytesOf(outcome: Outcome): Promise<number> {
  if (outcome.kind !== 'completed') throw new Error(`${outcome.code}: ${outcome.message}`)
  if (outcome.body instanceof Uint8Array) return outcome.body.byteLength
  let bytes = 0
  for await (const chunk of outcome.body) bytes += chunk.bytes.byteLength
  return bytes
}
