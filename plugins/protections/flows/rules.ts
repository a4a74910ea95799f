// The compiled section: which labels a call's response has, and which flows it would complete.
import { type Call, type CallRequest, isSideEffecting, type RequiredApproval, sideEffects } from '@svc/core'
import { canonicalize, defined, isJsonObject, sha256Hex } from '@svc/core/json'
import { compilePatternSet, type PatternSet } from '@svc/core/match'
import { type FlowsConfig, type labelDetectors, SIDE_EFFECTING } from './config.js'
import { hasFreeText } from './free-text.js'

type LabelDetector = (typeof labelDetectors)[number]

interface LabelRule {
  readonly label: string
  readonly tools: PatternSet | undefined
  readonly detector: LabelDetector | undefined
}

export type DetectedLabel = readonly [detector: LabelDetector, label: string]

export interface Flow {
  readonly from: string
  readonly to: string
  readonly approval: RequiredApproval
}

export class FlowRules {
  /** All labels that a caller can have. */
  readonly labels: readonly string[]
  #labels: readonly LabelRule[]
  #sinks: readonly (readonly [name: string, tools: PatternSet])[]
  #flows: readonly Flow[]

  /** `others` are the labels that other sections give. */
  constructor({ labels, sinks, deny_flow, approval_set_id: setId }: FlowsConfig, others: readonly string[]) {
    this.#labels = labels.map(({ label, tools, detector }) => ({
      label,
      tools: tools === undefined ? undefined : compilePatternSet(tools),
      detector,
    }))
    this.#sinks = Object.entries(sinks).map(([name, tools]) => [name, compilePatternSet(tools)])
    this.#flows = deny_flow.map(({ from, to }) => ({
      from,
      to,
      approval: {
        ...defined({ setId }),
        digest: sha256Hex(canonicalize({ from, to, labels, sinks })),
      },
    }))
    this.labels = [
      ...new Set([...labels.map(({ label }) => label), ...others, ...deny_flow.map(({ from }) => from)]),
    ]
  }

  /** Labels that the response has whatever it is. */
  labelsOf(request: CallRequest): readonly string[] {
    return this.#labels
      .filter((rule) => rule.detector === undefined && fits(rule.tools, request))
      .map(({ label }) => label)
  }

  /** Labels that the response has if its content is such. */
  detectedLabels(request: CallRequest): readonly DetectedLabel[] {
    return this.#labels.flatMap(({ label, tools, detector }) =>
      detector !== undefined && fits(tools, request) ? [[detector, label] as const] : [],
    )
  }

  /** The flows that end at this call, for a caller with the labels of each. */
  flowsTo(call: Call, request: CallRequest): readonly Flow[] {
    const isWrite = isWriting(call, request)
    return this.#flows.filter(
      ({ to }) =>
        (to === SIDE_EFFECTING && isWrite) ||
        this.#sinks.some(([name, tools]) => name === to && isInSink(tools, request)),
    )
  }
}

/** Protocol messages about tasks have the tools of the tasks; to other messages a rule on all tools applies. */
function fits(tools: PatternSet | undefined, { kind, readings, ofTasks }: CallRequest): boolean {
  if (tools === undefined) return true
  const judged = kind === 'protocol' ? (ofTasks ?? []) : readings
  return tools.findReading(judged) !== undefined
}

/** Any message but a call of another tool may reach any tool of its server, unless it has no text that somebody chose. */
function isInSink(tools: PatternSet, request: CallRequest): boolean {
  if (fits(tools, request)) return true
  return request.kind !== 'tool' && maySend(request) && tools.mayMatchServer(request.server)
}

/** Whether text of the caller can leave with the message. */
export function maySend(request: CallRequest): boolean {
  return request.kind !== 'protocol' || isInput(request) || hasFreeText(request)
}

/** Whether the message is what a client responds to a server that asked back. */
export function isInput({ kind, method, args }: CallRequest): boolean {
  if (kind !== 'protocol') return false
  if (method === 'tasks/update') return true
  // An empty result confirms a message, and has no data.
  const result = method === null && isJsonObject(args) ? args['result'] : undefined
  return isJsonObject(result) && Object.keys(result).length > 0
}

export function isWriting(call: Call, request: CallRequest): boolean {
  return isInput(request) || isSideEffecting(request, call.get(sideEffects))
}
