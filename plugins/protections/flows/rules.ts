// The compiled section: which labels a call's response has, and which flows it would complete.
import { type Call, type CallRequest, isSideEffecting, type RequiredApproval, sideEffects } from '@svc/core'
import { canonicalize, sha256Hex } from '@svc/core/json'
import { compilePatternSet, type PatternSet } from '@svc/core/match'
import { type FlowsConfig, type labelDetectors, SIDE_EFFECTING } from './config.js'

type LabelDetector = (typeof labelDetectors)[number]

interface LabelRule {
  readonly label: string
  readonly tools: PatternSet | undefined
  readonly detector: LabelDetector | undefined
}

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
        ...(setId === undefined ? {} : { setId }),
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
  detectedLabels(request: CallRequest): readonly (readonly [detector: LabelDetector, label: string])[] {
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
        this.#sinks.some(([name, tools]) => name === to && fits(tools, request)),
    )
  }
}

/** Protocol messages have no tool; what a rule says of all tools applies to them too. */
function fits(tools: PatternSet | undefined, { readings }: CallRequest): boolean {
  return tools === undefined || tools.findReading(readings) !== undefined
}

export function isWriting(call: Call, request: CallRequest): boolean {
  return isSideEffecting(request, call.get(sideEffects))
}
