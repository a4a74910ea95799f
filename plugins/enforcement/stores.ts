// Chooses the store of escalations: the bound `EscalationStore`, else the one that the policy names.
import { type PluginContext, resolveOptional, tokens } from '@svc/core'
import { StoreResource } from '@svc/core/store'
import type { EscalationsConfig } from './config.js'
import { EscalationStore } from './store/entries.js'

export function escalationStore(
  config: EscalationsConfig,
  context: PluginContext,
): StoreResource<EscalationStore> {
  const bound = resolveOptional(context.container, tokens.EscalationStore)
  return new StoreResource<EscalationStore>(
    {
      name: 'escalation store',
      section: 'escalations',
      kind: config.adapter,
      layer: (store) => new EscalationStore(store),
      settings: config,
      instance: bound && { name: 'the bound EscalationStore', store: new EscalationStore(bound) },
      operations: ['open', 'get', 'input', 'removeInput', 'latest', 'replace', 'remove', 'due', 'page'],
      whileDown: 'calls that escalate are refused',
    },
    context,
  )
}
