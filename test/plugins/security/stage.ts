// Calls through security and enforcement, as the gateway places them.

import { type AnswerStream, bind, type Call, type Completed, type Outcome } from '@svc/core'
import { type Dispatch, Pipeline, type PlacedStage } from '@svc/core/pipeline'
import { enforcementPlugin } from '@svc/plugin-enforcement'
import { securityPlugin, type Timer, timer } from '@svc/plugin-security'
import { createStage } from 'svc-sdk/testing'
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

export interface Setting {
  readonly security: object
  readonly enforcement?: object
  /** Between security and enforcement. */
  readonly between?: PlacedStage
}

/** What the caller would get. Enforcement stands inside, so that its verdict is known when the answer comes. */
export function run(
  { security, enforcement = {}, between }: Setting,
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

/** A body that comes in pieces; `closed` says whether its source was let go. */
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
