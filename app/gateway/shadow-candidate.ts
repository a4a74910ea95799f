// The stages of a candidate policy that judge content: no store, no runtime, no broker, no token, no notice.
import {
  bind,
  type Call,
  type CallRequest,
  clientForms,
  decisionOfRefusal,
  denied,
  type Identity,
  identity,
  mandates,
  type Plugin,
  Resources,
  type Stage,
  services,
  tokens,
} from '@svc/core'
import { CallControl, Pipeline } from '@svc/core/pipeline'
import type { Policy } from '../policy/config.js'
import type { PolicyPlace } from '../policy/facts.js'
import { pluginContext } from '../policy/plugin-context.js'
import { bindBetweenPlugins } from '../policy/plugins.js'
import { unsent } from '../policy/unsent-call.js'
import type { ShadowCandidate } from '../policy-shadow/shadow.js'

const judging: ReadonlySet<string> = new Set(['authorization', 'inspection', 'decision'])
const later: ReadonlySet<string> = new Set(['idempotency', 'metering', 'credential'])
const quiet = () => undefined

/** Rejects if a stage does not start. */
export async function openCandidate(policy: Policy, place: PolicyPlace): Promise<ShadowCandidate> {
  const container = policy.container.createChildContainer()
  bind(container, tokens.Meter, { useValue: { count: quiet } })
  bind(container, tokens.Logger, { useValue: { debug: quiet, info: quiet, warn: quiet, error: quiet } })
  bind(container, tokens.Notices, { useValue: { send: quiet } })
  bind(container, services.record, { useValue: async () => undefined })
  const context = pluginContext(policy, { container, resources: new Resources(), warn: quiet, ...place })
  const plugins = policy.plugins.filter(isJudging)
  const configOf = ({ name }: Plugin) => policy.sections.get(name)
  for (const plugin of plugins) plugin.bindInMemory?.(configOf(plugin), context)
  bindBetweenPlugins(container)
  for (const plugin of plugins) plugin.register?.(configOf(plugin), context)
  const stages = plugins.map((plugin) => {
    const stage = plugin.create(configOf(plugin), context)
    return { name: plugin.name, stage: plugin.phase === 'decision' ? deciding(stage) : stage }
  })
  const pipeline = new Pipeline(stages, () => unsent)
  await pipeline.start()
  const namesIn = (phases: ReadonlySet<string>) =>
    new Set(policy.plugins.filter(({ phase }) => phases.has(phase ?? '')).map(({ name }) => name))
  return {
    sha256: policy.sha256,
    stages: new Set(plugins.map(({ name }) => name)),
    later: namesIn(later),
    async judge(call, caller, request) {
      const outcome = await pipeline.run(copyOf(call, caller, request))
      if (outcome.kind === 'failed') throw new Error(outcome.message, { cause: outcome.cause })
      if (outcome.kind === 'completed') return { decision: 'allow' }
      const { reason } = outcome.denial ?? {}
      const decision = decisionOfRefusal(outcome.code)
      return { decision, ...(reason === undefined ? {} : { reason }) }
    },
    close: () => pipeline.stop(),
  }
}

/** Stages without an in-memory form could reach the outside, and mandates may need keys from there. */
function isJudging({ phase = 'inspection', bindInMemory, provides = [] }: Plugin): boolean {
  return judging.has(phase) && bindInMemory !== undefined && !provides.includes(mandates)
}

/** Decides as its explanation says, which opens no escalation. */
function deciding(stage: Stage): Stage {
  return { handle: (call, next) => stage.explain?.(call, next, quiet) ?? denied('INTERNAL', 'no decision') }
}

function copyOf(call: Call, caller: Identity, request: CallRequest): CallControl {
  const { protocol, headers, trace, agent, target, receivedAt } = call
  const init = { protocol, headers, trace, agent, target, receivedAt }
  const control = new CallControl({ ...init, read: () => request })
  control.call.set(identity, caller)
  const forms = call.get(clientForms)
  if (forms !== undefined) control.call.set(clientForms, () => ({ isOffered: forms().isOffered }))
  return control
}
