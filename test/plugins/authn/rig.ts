// An authn stage that trusts a real issuer.
import type { IncomingHttpHeaders } from 'node:http'
import { type Identity, identity, type Outcome, type PluginContext, type Stage } from '@svc/core'
import { authnPlugin, type JwksSource, jwksSource } from '@svc/plugin-authn'
import { FakeClock } from 'svc-sdk/testing'
import { TestIssuer } from '../../support/issuer.js'
import { StageRig, send } from '../../support/stage-rig.js'

export interface HttpResponse {
  readonly outcome: Outcome
  /** The identity that the stage set. */
  readonly identity: Identity | undefined
}

export class AuthnRig extends StageRig {
  private constructor(
    clock: FakeClock,
    readonly issuer: TestIssuer,
  ) {
    super({ tenant: 'gateway-tenant' }, clock)
  }

  static async start(options: { alg?: string } = {}): Promise<AuthnRig> {
    const clock = new FakeClock()
    return new AuthnRig(clock, await TestIssuer.start({ ...options, now: clock.now }))
  }

  useSource(source: JwksSource): void {
    this.bind(jwksSource, source)
  }

  /** A started stage that trusts the issuer; `oidc` and `section` override parts of its configuration. */
  async stage(oidc: object = {}, section: object = {}, context: Partial<PluginContext> = {}): Promise<Stage> {
    return this.start(authnPlugin, { oidc: { ...this.issuer.oidc, ...oidc }, ...section }, context)
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    await super[Symbol.asyncDispose]()
    await this.issuer[Symbol.asyncDispose]()
  }
}

export async function sendWith(stage: Stage, headers: IncomingHttpHeaders = {}): Promise<HttpResponse> {
  const { call, outcome } = await send(stage, { headers })
  return { outcome, identity: call.get(identity) }
}

export function present(
  stage: Stage,
  token: string,
  headers: IncomingHttpHeaders = {},
): Promise<HttpResponse> {
  return sendWith(stage, { authorization: `Bearer ${token}`, ...headers })
}
