// An authn stage with a real issuer, a fake clock and a captured log.

import type { IncomingHttpHeaders } from 'node:http'
import {
  bind,
  type Denied,
  type Failed,
  type Identity,
  identity,
  type Outcome,
  type PluginContext,
  type Stage,
  tokens,
} from '@svc/core'
import { authnPlugin, type JwksSource, jwksSource } from '@svc/plugin-authn'
import { createStage, FakeClock } from 'svc-sdk/testing'
import { makeCall } from '../../support/call.js'
import { makeContext, type TestContext } from '../../support/context.js'
import { TestIssuer } from '../../support/issuer.js'

export interface LogLine {
  readonly level: string
  readonly fields: Record<string, unknown>
  readonly message: string
}

export interface Answer {
  readonly outcome: Outcome
  /** The identity that the stage set. */
  readonly identity: Identity | undefined
}

const served: Outcome = { kind: 'completed', sent: 'yes', status: 200, headers: {}, body: new Uint8Array() }

export class Rig {
  readonly clock = new FakeClock()
  readonly log: LogLine[] = []
  readonly context: TestContext
  #issuer: TestIssuer | undefined
  #stages: Stage[] = []

  private constructor() {
    this.context = makeContext({ tenant: 'gateway-tenant' })
    const line = (level: string) => (fields: object, message: string) =>
      void this.log.push({ level, fields: { ...fields }, message })
    bind(this.context.container, tokens.Clock, { useValue: this.clock })
    bind(this.context.container, tokens.Logger, {
      useValue: { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') },
    })
  }

  static async start(options: { alg?: string } = {}): Promise<Rig> {
    const rig = new Rig()
    rig.#issuer = await TestIssuer.start({ ...options, now: rig.clock.now })
    return rig
  }

  get issuer(): TestIssuer {
    if (this.#issuer === undefined) throw new Error('the rig has no issuer')
    return this.#issuer
  }

  useSource(source: JwksSource): void {
    bind(this.context.container, jwksSource, { useValue: source })
  }

  /** A started stage that trusts the issuer; `oidc` and `section` override parts of its configuration. */
  async stage(oidc: object = {}, section: object = {}): Promise<Stage> {
    return this.start({ oidc: { ...this.issuer.oidc, ...oidc }, ...section })
  }

  async start(section: object, context: PluginContext = this.context): Promise<Stage> {
    const stage = createStage(authnPlugin, section, context)
    this.#stages.push(stage)
    await stage.start?.(new AbortController().signal)
    return stage
  }

  async stop(): Promise<void> {
    for (const stage of this.#stages) await stage.stop?.()
    await this.issuer.stop()
  }
}

export async function send(stage: Stage, headers: IncomingHttpHeaders = {}): Promise<Answer> {
  const call = makeCall({ headers })
  let asked = 0
  const outcome = await stage.handle(call, async () => {
    asked++
    return served
  })
  if ((outcome === served) !== (asked === 1))
    throw new Error('a refused call was passed on, or an admitted one was not')
  return { outcome, identity: call.get(identity) }
}

export function present(stage: Stage, token: string, headers: IncomingHttpHeaders = {}): Promise<Answer> {
  return send(stage, { authorization: `Bearer ${token}`, ...headers })
}

/** The refusal; throws when the call was accepted. */
export function refusal({ outcome }: Answer): Denied | Failed {
  if (outcome.kind === 'completed') throw new Error('the call was accepted')
  return outcome
}

/** `CODE: message` of the refusal. */
export function why(answer: Answer): string {
  const { code, message } = refusal(answer)
  return `${code}: ${message}`
}
