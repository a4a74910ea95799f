// The contract of stages, plugins and calls: what a plugin is written against.
export type { DependencyContainer } from 'tsyringe'
export { type Abortable, abortable } from './call/abort.js'
export type { Call, Hold, ReferenceRule, Settlement } from './call/call.js'
export { brand, CORE_VERSION, hasBrand } from './call/contract.js'
export type { Credential, ResponseHead } from './call/credential.js'
export type { ToolAnnotations, ToolLists } from './call/definitions.js'
export {
  type DefinitionFilter,
  type DefinitionKind,
  type DefinitionPage,
  definitionFilter,
  type ReceivedDefinition,
  requestDefinitions,
  type ServedDefinition,
  servedDefinition,
} from './call/definitions.js'
export type { Denial } from './call/errors.js'
export {
  decisionOfRefusal,
  type ErrorCode,
  isErrorCode,
  isRefusal,
  Refusal,
  statusOf,
} from './call/errors.js'
export {
  type ApprovalSet,
  defaultEscalation,
  type EscalationRule,
  type EscalationStatus,
  type Passkey,
  type Reviewer,
  type Reviewers,
} from './call/escalation.js'
export type { ExternalDecision } from './call/external-decision.js'
export {
  denialBy,
  denialOf,
  describeFinding,
  type Effect,
  effectOf,
  effectOnCall,
  type Finding,
  type FindingList,
  type RecordedFinding,
  type RequiredApproval,
  reasons,
  type Verdict,
} from './call/finding.js'
export { after, attempt, firstResult, isPending, type MaybePromise } from './call/maybe-promise.js'
export { judgedOnly, type NoteListener, notes, type SectionEntry } from './call/notes.js'
export {
  type Completed,
  type Denied,
  denied,
  type Failed,
  failed,
  isStream,
  type Outcome,
  type ResponseChunk,
  type ResponseHeaders,
  type ResponseStream,
  type Sent,
} from './call/outcome.js'
export type { Identity } from './call/principal.js'
export { callerNameOf, isPerson, personKeyOf, principalKeyOf } from './call/principal.js'
export type { KeptValues } from './call/recorded.js'
export {
  isUnrecorded,
  type PossibleFinding,
  type RecordedCall,
  recordedCall,
  Unrecorded,
} from './call/recorded.js'
export { errorFields, type Redactor, redactedError, redactedValue, redactor } from './call/redactor.js'
export {
  type CallAgent,
  type CallProtocol,
  type CallRequest,
  type CallTarget,
  type CallTrace,
  callRequest,
  canonicalInput,
  digestOfInput,
  frozen,
  pathReferences,
  type RequestKind,
  repeatableInput,
  requestReference,
  type ToolReferences,
} from './call/request.js'
export {
  type AskedRequest,
  isRefusedAsk,
  type RefusedAsk,
  type ServerMethodRules,
  type ServerRequestRules,
  serverMethodRules,
  serverRequestRules,
} from './call/server-messages.js'
export {
  isDeclaredHarmless,
  isSideEffecting,
  type SideEffectKnowledge,
  type SideEffects,
  sideEffectSource,
  sideEffectsOf,
} from './call/side-effects.js'
export { type Slot, slot } from './call/slot.js'
export {
  type ClientForms,
  callLabels,
  clientForms,
  credential,
  decidingPattern,
  escalation,
  externalDecision,
  idempotency,
  identity,
  kept,
  type Limit,
  limits,
  type MandateReport,
  type McpFacts,
  mandates,
  mcpFacts,
  publicBaseUrl,
  type RequestedResource,
  receivedDigest,
  requestedResource,
  responseChange,
  responseTimeLeft,
  sideEffects,
  type TrustedCaller,
  trustedCaller,
  verdict,
} from './call/slots.js'
export { TimeoutError, withinLimit, withTimeout } from './call/within-limit.js'
export { checkServer, checkUsable, clockSkew, type DoctorCheck, describeSkew } from './doctor/check.js'
export type {
  Counter,
  CounterChange,
  CounterHold,
  CounterLimit,
  Counters,
  CounterUse,
  CounterWindow,
  SettleOptions,
  Taken,
  TakeOptions,
} from './plugin/counters.js'
export type { DecisionEvaluator, Evaluation, EvaluationRequest, Obligation } from './plugin/evaluation.js'
export { hostClock } from './plugin/host-clock.js'
export type {
  Bound,
  Commit,
  CommitOptions,
  Entry,
  GetOptions,
  KeyValueStore,
  OpenKeyValueStore,
  Scan,
  ScanPage,
  Snapshot,
  Space,
  SpaceState,
  Watch,
  Write,
} from './plugin/key-value-store.js'
export type { ItemEdit, Narrowing, NarrowingSettings, PolicyEdit } from './plugin/narrowing.js'
export { type Notice, type Notices, noticeTypes } from './plugin/notices.js'
export type { Phase } from './plugin/phase.js'
export {
  bindForPipeline,
  bindOwned,
  type ConfigConflict,
  definePlugin,
  owned,
  type Plugin,
  type PluginContext,
  registeredPlugins,
  registerPlugin,
  type SectionsOf,
} from './plugin/plugin.js'
export {
  type ConfiguredRule,
  type DenyRule,
  type EscalatingRule,
  escalatingRules,
  hostOf,
  type PolicyHost,
  policyTokens,
} from './plugin/policy-tokens.js'
export type { QuotaAdapter, ResetAt } from './plugin/quota-adapter.js'
export { type Lease, Resources } from './plugin/resources.js'
export {
  type DescribedRule,
  type GatewayEvent,
  type Identify,
  type LimitInUse,
  type NamedCaller,
  type RecordEvent,
  type RecordOnSettle,
  type SignInIssuer,
  services,
} from './plugin/services.js'
export type { Signer } from './plugin/signer.js'
export {
  disabledStage,
  type Next,
  type Stage,
  type StageHealth,
} from './plugin/stage.js'
export type { StoreLifecycle } from './plugin/store-lifecycle.js'
export {
  type Appender,
  bind,
  bindDefault,
  type Clock,
  declareMetrics,
  type Ids,
  type Logger,
  type Meter,
  type MetricEntry,
  resolve,
  resolveOptional,
  type Token,
  token,
  tokens,
} from './plugin/tokens.js'
