// A brokers stage with keys in files and variables, a fake clock and a captured log.
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import type { IncomingHttpHeaders } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  type AnswerHead,
  bind,
  type Call,
  type Credential,
  credential,
  type Identity,
  identity,
  type Outcome,
  type Stage,
  tokens,
} from '@svc/core'
import { brokersPlugin } from '@svc/plugin-brokers'
import { createStage, FakeClock } from 'svc-sdk/testing'
import { makeCall } from '../../support/call.js'
import { makeContext, type TestContext } from '../../support/context.js'
import { type KeepingLogger, keepingLogger } from '../../support/logger.js'

const served: Outcome = { kind: 'completed', sent: 'yes', status: 200, headers: {}, body: new Uint8Array() }

export const ada: Identity = { tenant: 'acme', authenticated: true, user: 'ada@example.com', roles: [] }

export class Rig {
  readonly clock = new FakeClock()
  readonly log: KeepingLogger = keepingLogger()
  /** Directory of the policy and of the gateway's files. */
  readonly home = realpathSync(mkdtempSync(join(tmpdir(), 'svc-test-')))
  readonly env: Record<string, string> = {}
  readonly context: TestContext
  #stages: Stage[] = []

  constructor() {
    this.context = makeContext({ baseDir: this.home, stateDir: this.home, env: this.env })
    bind(this.context.container, tokens.Clock, { useValue: this.clock })
    bind(this.context.container, tokens.Logger, { useValue: this.log })
  }

  write(name: string, key: string): void {
    writeFileSync(join(this.home, name), key)
  }

  /** A started stage with this broker for the server `files`. */
  async stage(broker: object): Promise<Stage> {
    const section = { files: { inject: { header: 'X-Api-Key', format: 'raw' }, ...broker } }
    const stage = createStage(brokersPlugin, section, this.context)
    this.#stages.push(stage)
    await stage.start?.(new AbortController().signal)
    return stage
  }

  async stop(): Promise<void> {
    for (const stage of this.#stages) await stage.stop?.()
    rmSync(this.home, { recursive: true, force: true })
  }
}

export interface Brokered {
  readonly call: Call
  readonly outcome: Outcome
  readonly credential: Credential | undefined
}

export async function send(
  stage: Stage,
  headers: IncomingHttpHeaders = {},
  caller: Identity = ada,
): Promise<Brokered> {
  const call = makeCall({ headers })
  call.set(identity, caller)
  const outcome = await stage.handle(call, async () => served)
  return { call, outcome, credential: call.get(credential) }
}

/** The key that the call would send; throws where the call was refused. */
export async function keyFor(stage: Stage, headers: IncomingHttpHeaders = {}): Promise<string> {
  return held(await send(stage, headers)).value
}

export function held({ credential, outcome }: Brokered): Credential {
  if (credential === undefined) throw new Error(`no credential: ${JSON.stringify(outcome)}`)
  return credential
}

/** Simulates the upstream's answer; the result is the credential for the repetition. */
export async function answered(
  brokered: Brokered | Credential,
  status: number,
  headers: AnswerHead['headers'] = {},
): Promise<Credential | undefined> {
  const used = 'call' in brokered ? held(brokered) : brokered
  return used.answered?.({ status, headers })
}

/** `CODE: message`, and the cause as the log has it. */
export function why({ outcome }: Brokered): { said: string; logged: string } {
  if (outcome.kind === 'completed') throw new Error('the call was passed on')
  const cause = outcome.kind === 'failed' && outcome.cause instanceof Error ? outcome.cause.message : ''
  return { said: `${outcome.code}: ${outcome.message}`, logged: cause }
}
