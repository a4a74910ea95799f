// Verifies the mandates of the Agent Payments Protocol (AP2) that calls carry.
import { readFileSync } from 'node:fs'
import { resolve as resolvePath } from 'node:path'
import {
  declareMetrics,
  definePlugin,
  disabledStage,
  identity,
  type MetricEntry,
  mandates,
  owned,
  type PluginContext,
  policyTokens,
  resolve,
  resolveOptional,
  type Stage,
  services,
  sideEffects,
  tokens,
  Unrecorded,
} from '@svc/core'
import { type Ap2Config, ap2Schema } from './config.js'
import { didJwk, didKey, didMethods } from './keys/did-method.js'
import { DidWeb } from './keys/did-web.js'
import { IssuerKeys, pinnedKeys } from './keys/issuer-keys.js'
import { mandateReasons } from './mandate/error.js'
import { checkSection } from './policy-check.js'
import { MandateRequirement } from './requirement.js'
import { Ap2Stage, type Verification } from './stage.js'
import { useStore } from './use-hold.js'

const metrics: Readonly<Record<string, MetricEntry>> = {
  svc_ap2_verified_total: { kind: 'counter', help: 'Calls whose mandates were verified.' },
  svc_ap2_findings_total: {
    kind: 'counter',
    help: 'Findings about mandates: missing, invalid, for other arguments, or used before.',
  },
}

export const ap2Plugin = definePlugin({
  name: 'ap2',
  version: '1.0.0',
  core: '^1.0.0',
  schema: ap2Schema,
  phase: 'inspection',
  uses: [identity, sideEffects],
  provides: [mandates],
  reasons: mandateReasons,
  owns: [
    owned(
      policyTokens.refusesTools,
      ({ enabled, mode, tools }: Ap2Config) =>
        enabled && (mode === 'full' || mode === 'partial') && tools.allow !== undefined,
    ),
  ],
  check: checkSection,
  create: (config, context) =>
    config.enabled ? stageOf(config, context) : disabledStage('mandates are not read'),
})

function stageOf(config: Ap2Config, context: PluginContext): Stage {
  const { container, tenant, publicUrl } = context
  declareMetrics(container, metrics)
  const { trust, headers, policyWebhookUrl: url } = config
  const notices = resolveOptional(container, tokens.Notices)
  const clock = resolve(container, tokens.Clock)
  const web = didWeb(config, context)
  const keys = issuerKeys(config, context, web)
  const rules = {
    algorithms: new Set<string>(trust.algorithms),
    skewSec: trust.clockSkewSec,
    role: config.role,
  }
  const own = publicUrl === undefined ? [] : [publicUrl]
  return new Ap2Stage({
    requirement: new MandateRequirement(config),
    headers,
    verification: async (): Promise<Verification> => {
      const { parsePresented: parse } = await import('./parse-mandates.js')
      const { MandateVerifier } = await import('./verify/verifier.js')
      return { parse, verifier: new MandateVerifier(rules, keys, clock) }
    },
    keys,
    web,
    store: useStore(context),
    audiences: (server) => new Set(trust.audiences ?? [server, ...own]),
    clock,
    meter: resolveOptional(container, tokens.Meter),
    tenant,
    notice: notices === undefined ? undefined : { notices, url },
  })
}

function issuerKeys({ trust }: Ap2Config, { container, baseDir }: PluginContext, web: DidWeb): IssuerKeys {
  const { issuersAllowlist, issuers } = trust
  const inMemory = resolveOptional(container, services.inMemory) === true
  return new IssuerKeys({
    allowed: new Set(issuersAllowlist ?? Object.keys(issuers)),
    didMethods: trust.didMethods === undefined ? undefined : new Set(trust.didMethods),
    pinned: pinnedKeys(issuers, baseDir),
    methods: {
      ...{ key: didKey, jwk: didJwk, web: inMemory ? unaskedWeb : web },
      ...resolveOptional(container, didMethods),
    },
  })
}

/** What another host would respond is not known to tools that judge calls. */
const unaskedWeb = { resolve: () => Promise.reject(new Unrecorded(['the keys of the issuer'])) }

function didWeb({ trust }: Ap2Config, { container, baseDir }: PluginContext): DidWeb {
  const { allowPrivate, caFile, timeoutMs, maxAgeSec } = trust.didWeb
  const clock = resolve(container, tokens.Clock)
  const ca = caFile === undefined ? undefined : readFileSync(resolvePath(baseDir, caFile), 'utf8')
  return new DidWeb({ allowPrivate, ca, timeoutMs, maxAgeMs: maxAgeSec * 1000, clock })
}
