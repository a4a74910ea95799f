// The stages authn, entitlements and quotas, without the rest of the gateway.
import { createStage } from 'svc-sdk/testing'
import 'reflect-metadata'
import {
  bind,
  type CallRequest,
  type Outcome,
  type Plugin,
  type PluginContext,
  Resources,
  tokens,
} from '@svc/core'
import { formatReference } from '@svc/core/match'
import { CallControl, compose, type PlacedStage } from '@svc/core/pipeline'
import { authnPlugin } from '@svc/plugin-authn'
import { entitlementsPlugin } from '@svc/plugin-entitlements'
import { quotasPlugin } from '@svc/plugin-quotas'
import { container } from 'tsyringe'
import { AUDIENCE, type Issuer, TENANT } from '../gateway/issuer.js'
import { ARGUMENTS, SERVER, VERSION } from '../gateway/requests.js'
import { entitlementsOf } from './patterns.js'

/** More tools than an entitlement remembers decisions about, so that every decision is measured. */
const TOOLS = 512

export const stageNames = ['authn', 'entitlements', 'quotas'] as const

const requests = Array.from({ length: TOOLS }, (_, i): CallRequest => {
  const name = `list-invoices-${i}`
  const reference = formatReference({ server: SERVER, tool: name, version: VERSION })
  const named = { server: SERVER, name, version: VERSION, reference, readings: [reference] }
  return {
    ...named,
    idempotencyKey: null,
    kind: 'tool',
    method: null,
    args: ARGUMENTS,
    canonicalArgs: '',
    bytes: 0,
  }
})

export class Stages {
  readonly #stages: readonly PlacedStage[]
  readonly #headers: readonly { readonly authorization: string }[]

  /** Opens the stages with `patterns` patterns, and verifies every token once. */
  static async open(issuer: Issuer, patterns: number): Promise<Stages> {
    const sections = [
      { oidc: { issuer: issuer.url, audience: AUDIENCE, jwks_uri: `${issuer.url}/jwks` } },
      entitlementsOf(patterns),
      { adapter: 'memory' },
    ]
    const plugins: readonly Plugin[] = [authnPlugin, entitlementsPlugin, quotasPlugin]
    const context = contextOf()
    const stages = plugins.map((plugin, i) => ({
      name: plugin.name,
      stage: createStage(plugin, sections[i], context),
    }))
    for (const { stage } of stages) await stage.start?.(new AbortController().signal)
    const opened = new Stages(stages, issuer.tokens)
    await opened.cpu(stages.length, 2_000)
    return opened
  }

  private constructor(stages: readonly PlacedStage[], bearerTokens: readonly string[]) {
    this.#stages = stages
    this.#headers = bearerTokens.map((token) => ({ authorization: `Bearer ${token}` }))
  }

  /** CPU microseconds per call, garbage collection included, through the first `stages` stages. */
  async cpu(stages: number, calls: number): Promise<number> {
    const run = compose(this.#stages.slice(0, stages), response)
    const before = process.cpuUsage()
    for (let i = 0; i < calls; i++) {
      const outcome = await run(this.#call(i))
      if (outcome.kind !== 'completed') throw new Error(`not served: ${outcome.code} ${outcome.message}`)
    }
    const { user, system } = process.cpuUsage(before)
    return (user + system) / calls
  }

  async close(): Promise<void> {
    for (const { stage } of this.#stages) await stage.stop?.()
  }

  #call(i: number): CallControl {
    const request = requests[i % TOOLS]
    if (request === undefined) throw new Error('there are no requests')
    const { server, name } = request
    return new CallControl({
      protocol: 'invoke',
      headers: this.#headers[i % this.#headers.length] ?? {},
      trace,
      agent,
      target: { server, serverVersion: VERSION, tool: name, toolVersion: VERSION, mcpMethod: null },
      receivedAt: 0,
      read: () => request,
    })
  }
}

const trace = { traceId: '', spanId: '', flags: '01', state: null, causeTraceId: null, causeSpanId: null }
const agent = { nodeId: null, agentRef: null, parentRef: null, variables: null, metadata: null }
const served: Outcome = { kind: 'completed', status: 200, headers: {}, body: new Uint8Array() }
const response = () => Promise.resolve(served)

function contextOf(): PluginContext {
  const own = container.createChildContainer()
  bind(own, tokens.Clock, { useValue: { now: () => Date.now(), monotonic: () => performance.now() } })
  return {
    container: own,
    resources: new Resources(),
    tenant: TENANT,
    targets: { [SERVER]: 'http://127.0.0.1:9' },
    policySha256: null,
    baseDir: process.cwd(),
    stateDir: process.cwd(),
    warn: () => undefined,
  }
}
