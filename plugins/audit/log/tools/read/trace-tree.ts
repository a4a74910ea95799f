// The records of one trace, of one log or of several, as a tree: a call is below the call that caused it.

import { defined } from '@svc/core/json'
import type { SignedEnvelope } from '../../format/envelope.js'
import type { FailureKind } from '../verify/report.js'
import { type ReadOptions, readLog } from './read-log.js'

export interface TraceNode {
  readonly record: SignedEnvelope
  /** The directory of its log. */
  readonly dir: string
  /** Why the record cannot be trusted; absent if the keys of its own log confirm it. */
  readonly unverified?: FailureKind
  /** The calls that this one caused, by time. */
  readonly children: readonly TraceNode[]
}

interface BuiltNode extends TraceNode {
  readonly children: BuiltNode[]
}

/**
 * The roots of the trace in order of time: calls that no recorded call caused. A call that was caused by one of the trace
 * belongs to it, even if its own trace has another id.
 *
 * @throws {AuditError} as `readLog`.
 */
export async function traceTree(
  dirs: readonly string[],
  traceId: string,
  { onBadLine }: Pick<ReadOptions, 'onBadLine'> = {},
): Promise<TraceNode[]> {
  const traces = new Set([traceId])
  for (let pass = 1; ; pass++) {
    const known = traces.size
    const nodes: BuiltNode[] = []
    // Each bad line is reported once.
    const reportBad = pass === 1 ? onBadLine : () => undefined
    for (const dir of dirs) {
      for await (const node of nodesOf(dir, traces, reportBad)) {
        traces.add(node.record.trace_id)
        nodes.push(node)
      }
    }
    // A trace that was found last may have caused calls in records that were read before.
    if (traces.size === known) return linked(nodes)
  }
}

async function* nodesOf(
  dir: string,
  traces: ReadonlySet<string>,
  onBadLine: ReadOptions['onBadLine'],
): AsyncGenerator<BuiltNode> {
  let unverified: FailureKind | undefined
  const options: ReadOptions = {
    ...defined({ onBadLine }),
    onUnverified: ({ kind }) => {
      unverified = kind
    },
  }
  for await (const record of readLog(dir, { traces }, options)) {
    yield { record, dir, ...defined({ unverified }), children: [] }
    unverified = undefined
  }
}

function linked(nodes: readonly BuiltNode[]): BuiltNode[] {
  const byTime = [...nodes].sort((a, b) => startOf(a) - startOf(b))
  const bySpan = new Map<string, BuiltNode>()
  for (const node of byTime) {
    const { span_id: span } = node.record
    if (!bySpan.has(span)) bySpan.set(span, node)
  }
  const roots: BuiltNode[] = []
  for (const node of byTime) {
    const cause = bySpan.get(node.record.cause_span_id ?? '')
    if (cause === undefined || isBelow(cause, node)) roots.push(node)
    else cause.children.push(node)
  }
  return roots
}

/** Whether a call is below another. Callers name the cause, so two calls may each name the other. */
function isBelow(node: BuiltNode, above: BuiltNode): boolean {
  return node === above || above.children.some((child) => isBelow(node, child))
}

/** The start of a call: its `ts` is the time of its arrival. */
function startOf({ record }: BuiltNode): number {
  return Date.parse(record.ts)
}
