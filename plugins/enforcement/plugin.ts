// Turns findings into one verdict. No other stage denies for a finding.
import {
  bindDefault,
  type DependencyContainer,
  declareMetrics,
  defaultEscalation,
  definePlugin,
  type EscalationRule,
  escalatingRules,
  escalation,
  externalDecision,
  identity,
  type MetricEntry,
  owned,
  type PluginContext,
  policyTokens,
  redactor,
  resolve,
  resolveOptional,
  servedDefinition,
  services,
  sideEffects,
  token,
  tokens,
  verdict,
} from '@svc/core'
import { bindStore, checkForWorkers, StoreResource } from '@svc/core/store'
import { type EnforcementConfig, type EscalationsConfig, enforcementSchema } from './config.js'
import { enforcementConflicts } from './conflicts.js'
import { Escalations } from './escalation/escalations.js'
import { escalationService } from './escalation/service.js'
import { EnforcementStage } from './stage.js'
import { EscalationStore } from './store/entries.js'
import { compileVerdict, deniedReasons, describeEscalation, describeRule } from './verdict.js'

const escalationResource = token<StoreResource<EscalationStore>>('enforcement/StoreResource')

const metrics: Readonly<Record<string, MetricEntry>> = {
  svc_escalations_opened_total: { kind: 'counter', help: 'Escalations opened.' },
  svc_escalations_approved_total: {
    kind: 'counter',
    help: 'Escalations approved, by votes, strategy or time-out.',
  },
  svc_escalations_rejected_total: {
    kind: 'counter',
    help: 'Escalations rejected, by votes or time-out.',
  },
  svc_escalations_expired_total: {
    kind: 'counter',
    help: 'Escalations decided by their time-out; also counted as approved or rejected.',
  },
  svc_escalation_emergencies_total: {
    kind: 'counter',
    help: 'Calls that ran before they were approved, in an emergency.',
  },
  svc_escalation_reviews_open: {
    kind: 'gauge',
    help: 'Emergency calls in the store whose review is open, of which each process counts all, once a minute.',
  },
  svc_escalations_used_total: { kind: 'counter', help: 'Approvals used to send a call.' },
  svc_escalation_store_failures_total: {
    kind: 'counter',
    help: 'Operations of the escalation store that failed.',
  },
  svc_escalation_store_duration_seconds: {
    kind: 'histogram',
    help: 'Time of an operation of the escalation store outside this process, in seconds.',
  },
}

export const enforcementPlugin = definePlugin({
  name: 'enforcement',
  version: '1.0.0',
  core: '^1.0.0',
  schema: enforcementSchema,
  phase: 'decision',
  uses: [externalDecision, identity, servedDefinition, sideEffects, redactor],
  provides: [verdict, escalation],
  check: (config, bindings) => [
    ...enforcementConflicts(config, ruleOf(bindings), bindings),
    ...checkForWorkers(config.escalations.adapter, ['enforcement', 'escalations', 'adapter'], bindings),
  ],

  owns: [
    owned(policyTokens.denyRule, ({ mode, deny_on }: EnforcementConfig) => ({
      mode,
      ...(deny_on === undefined ? {} : { denyOn: [...deniedReasons(deny_on)] }),
    })),
    {
      token: tokens.EscalationStore,
      selectedBy: ['adapter', 'redisUrl', 'dir'].map((key) => ['escalations', key]),
      bind({ escalations }: EnforcementConfig, context: PluginContext) {
        if (ruleOf(context.container) === undefined) return
        const resource = escalationStore(escalations, context)
        bindStore(context.container, { resource, own: escalationResource })
      },
    },
  ],

  create(config, context) {
    declareMetrics(context.container, metrics)
    const rule = ruleOf(context.container)
    const compiled = compileVerdict(config, rule !== undefined && rule.isForRulingsAlone !== true)
    const record = () => resolveOptional(context.container, services.record)
    if (rule === undefined) return new EnforcementStage(compiled, [describeRule(config)], record)
    const store = resolve(context.container, escalationResource)
    const maxWaitMs = config.escalations.maxWaitSec * 1000
    const lists = resolveOptional(context.container, tokens.ToolAnnotations)?.lists(context.targets)
    const escalations = new Escalations({ rule, store, maxWaitMs, lists }, context)
    bindDefault(context.container, escalationService, { useCurrent: () => escalations.service })
    const description = [describeRule(config), describeEscalation(config, rule)]
    return new EnforcementStage(compiled, description, record, { rule, escalations, lists })
  },
})

/** The rule by which calls escalate; undefined if no call does. */
function ruleOf(container: DependencyContainer): EscalationRule | undefined {
  const rule = resolveOptional(container, policyTokens.escalationRule)
  if (escalatingRules(container).length > 0) {
    return rule ?? { ...defaultEscalation, isForRulingsAlone: true }
  }
  return rule?.isForRulingsAlone === true ? undefined : rule
}

/** The bound `EscalationStore`, else the one that the policy names. */
function escalationStore(config: EscalationsConfig, context: PluginContext): StoreResource<EscalationStore> {
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
