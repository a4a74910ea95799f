// Runs calls through the security stage, alone or with the enforcement stage.

import { type AnswerStream, bind, type Call, type Completed, type Outcome } from '@svc/core'
import { type Dispatch, Pipeline, type PlacedStage } from '@svc/core/pipeline'
import { enforcementPlugin } from '@svc/plugin-enforcement'
import { securityPlugin, type Timer, timer } from '@svc/plugin-security'
import { createStage } from 'svc-sdk/testing'
import { makeCall } from '../../support/call.js'
import { makeContext } from '../../support/context.js'

export function served(
  body: Completed['body'] = new Uint8Array(),
  headers: Completed['headers'] = {},
): Completed {
  return { kind: 'completed', sent: 'yes', status: 200, headers, body }
}

export function securityStage(section: object, ownTimer?: Timer) {
  const context = makeContext()
  if (ownTimer !== undefined) bind(context.container, timer, { useValue: ownTimer })
  return createStage(securityPlugin, section, context)
}

/** The lines that `svc policy explain` prints for the stage. */
export async function explain(section: object, call = makeCall()): Promise<string[]> {
  const lines: string[] = []
  await securityStage(section).explain?.(
    call,
    async () => served(),
    (line) => lines.push(line),
  )
  return lines
}

export interface Sections {
  readonly security: object
  readonly enforcement?: object
  /** Between security and enforcement. */
  readonly between?: PlacedStage
}

/** Runs the call in a pipeline with security outside enforcement, as in the gateway. */
export function run(
  { security, enforcement = {}, between }: Sections,
  call: Call,
  upstream: Dispatch,
): Promise<Outcome> {
  const stages: PlacedStage[] = [
    { name: 'security', stage: securityStage(security) },
    ...(between === undefined ? [] : [between]),
    {
      name: 'enforcement',
      stage: createStage(enforcementPlugin, enforcement, makeContext()),
    },
  ]
  return new Pipeline(stages, upstream).run(call)
}

/** A streamed body; `closed` tells whether its source was closed. */
export function streamOf(...sizes: number[]): AnswerStream & { closed: boolean; read: number } {
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
