export type { Abortable } from './abort.js'
export { Base64Error, fromBase64, toBase64, writeBase64 } from './base64.js'
// What plugins, the app and custom stages build on.
export {
  Call,
  type CallInit,
  type Hold,
  type ReferenceRule,
  type Settlement,
} from './call.js'
export type { AnswerHead, Credential } from './credential.js'
export type { DedupeClaim, DedupeStanding, DedupeStore } from './dedupe-store.js'
export { makeDirectories } from './directories.js'
export { type ErrorCode, errorTable, messageOf, Refusal, statusOf } from './errors.js'
export {
  type ApprovalSet,
  type ApprovalStrategy,
  type Escalation,
  type EscalationDesk,
  type EscalationRule,
  type EscalationSeverity,
  type EscalationStatus,
  type EscalationVote,
  type Reviewer,
  type Reviewers,
  VoteError,
  type VoteErrorCode,
} from './escalation.js'
export type { EscalationEntry, EscalationStore, OpenConditions } from './escalation-store.js'
export type { DecisionEvaluator, Evaluation, EvaluationRequest, Obligation } from './evaluation.js'
export {
  codeOfReason,
  type Effect,
  effectOf,
  type Finding,
  type JudgedFinding,
  reasons,
  type Verdict,
} from './finding.js'
export { sha256Hex } from './hash.js'
export { connectionFields, fieldValue } from './header-field.js'
export { type CutObject, canonicalize, canonicalizeAround, joinCut, joinCutWith } from './json/canonical.js'
export { type CanonicalJsonCode, CanonicalJsonError } from './json/errors.js'
export { type JsonInputCode, JsonInputError } from './json/input-error.js'
export { jsonObjectIn } from './json/object.js'
export { parseJson } from './json/parse.js'
export { shownPath } from './json/path.js'
export { pathSegment } from './json/path-segment.js'
export type { JsonArray, JsonObject, JsonValue } from './json/value.js'
export type { Judgement } from './judgement.js'
export { isLoopbackHost } from './loopback.js'
export { type Glob, globMatches, globOf } from './match/glob.js'
export {
  compilePatternMap,
  compilePatternSet,
  type PatternMap,
  type PatternMatch,
  type PatternSet,
} from './match/matcher.js'
export { compilePattern, type Pattern, type PatternCode, PatternError } from './match/pattern.js'
export {
  formatNameSegment,
  formatReference,
  formatToolSegment,
  type PromptParts,
  parseNameSegment,
  parseReference,
  parseToolSegment,
  type ReferenceCode,
  ReferenceInputError,
  type ReferenceParts,
  type ResourceParts,
  type ToolParts,
} from './match/reference.js'
export { wordsOf } from './match/words.js'
export {
  type AnswerChunk,
  type AnswerHeaders,
  type AnswerStream,
  type Completed,
  type Denial,
  type Denied,
  denied,
  type Failed,
  failed,
  isStream,
  type Outcome,
  type Sent,
} from './outcome.js'
export { buildPipeline } from './pipeline/build.js'
export { compose, type Dispatch, type PlacedStage } from './pipeline/compose.js'
export { checkOrder, type OrderMistake, placeInOrder } from './pipeline/order.js'
export { Pipeline } from './pipeline/pipeline.js'
export { CORE_VERSION, definePlugin, type MetricEntry, type Plugin, type PluginContext } from './plugin.js'
export { formatDiagnostic, PolicyError } from './policy/diagnostic.js'
export type { Contradiction, DenyRule, PolicyFacts } from './policy/facts.js'
export { policySchema } from './policy/json-schema.js'
export { loadPolicy, pluginUses } from './policy/load.js'
export { notAvailable, notYet } from './policy/not-yet.js'
export { type KeyReference, keysReference } from './policy/reference.js'
export { nearest } from './policy/spelling.js'
export type {
  Diagnostic,
  EffectivePolicy,
  PluginUse,
  PolicyInput,
  PolicyLayer,
  PolicyResult,
} from './policy/types.js'
export {
  type DescribeResource,
  describedPath,
  metadataUrl,
  type ResourceMetadata,
  resourceUrl,
} from './protected-resource.js'
export type { QuotaAdapter } from './quota-adapter.js'
export { type Redactor, redactedFault, redactedValue } from './redactor.js'
export type { CallAgent, CallRequest, CallTarget, CallTrace, Face, RequestKind } from './request.js'
export { type Lease, Resources } from './resources.js'
export { retryAfterMs } from './retry-after.js'
export { type KeptKey, keptKey } from './secret/kept-key.js'
export { KeyError, type KeyErrorCode } from './secret/key-error.js'
export { type KeyPlace, KeyReader } from './secret/key-reader.js'
export { type GatewayEvent, type Identify, type RecordEvent, services } from './services.js'
export { isSideEffecting, type SideEffectKnowledge, sideEffectPolicy } from './side-effects.js'
export type { Signer } from './signer.js'
export { type Slot, slot } from './slot.js'
export {
  credential,
  type Dedupe,
  dedupe,
  escalation,
  type Identity,
  identity,
  judgement,
  type Limit,
  limits,
  reachedAt,
  redactor,
  sideEffects,
  verdict,
} from './slots.js'
export { eventOf, readEvent, type SseEvent, withData } from './sse/event.js'
export { type SseBlock, SseOverflow, SseSplitter } from './sse/splitter.js'
export type { Next, Stage } from './stage.js'
export { AnswerDeadline, atOnce } from './store/answer-deadline.js'
export { checkRedisSettings, checkStoreChoice, redisSettings, redisUrl } from './store/redis/settings.js'
export {
  type Appender,
  type Binding,
  bind,
  bindDefault,
  type Clock,
  type Ids,
  type Logger,
  type Meter,
  resolve,
  resolveOptional,
  type Token,
  token,
  tokens,
} from './tokens.js'
export type { ToolAnnotations } from './tool-annotations.js'
