// `svc audit show --trace`: the calls of one trace as a tree.

import { basename } from 'node:path'
import { visibleInLine } from '@svc/core/json'
import { AuditError } from '@svc/plugin-audit/log'
import { type TraceNode, traceTree } from '@svc/plugin-audit/tools'
import { badLines, reasonsOf } from './audit-show.js'
import type { CliIo } from './io.js'
import { formatMilliseconds } from './table.js'

export async function showTrace(dirs: readonly string[], traceId: string, io: CliIo): Promise<void> {
  const roots = await traceTree(dirs, traceId, badLines(io))
  if (roots.length === 0) throw new AuditError('read_failed', `there is no record of the trace ${traceId}`)
  const isOneLog = dirs.length === 1
  for (const root of roots) {
    await io.out(lineOf(root, isOneLog))
    for (const line of branches(root.children, '', isOneLog)) await io.out(line)
  }
}

function* branches(nodes: readonly TraceNode[], indent: string, isOneLog: boolean): Generator<string> {
  for (const [i, node] of nodes.entries()) {
    const isLast = i === nodes.length - 1
    yield `${indent}${isLast ? '└─ ' : '├─ '}${lineOf(node, isOneLog)}`
    yield* branches(node.children, `${indent}${isLast ? '   ' : '│  '}`, isOneLog)
  }
}

function lineOf({ record, dir, unverified }: TraceNode, isOneLog: boolean): string {
  const { server, tool, policy, status, latency_ms, tenant, ts } = record
  const parts = [
    `${server}/${tool}`,
    policy.decision,
    status,
    ...(unverified === undefined ? [] : [unverified.toUpperCase()]),
    ...reasonsOf(record),
    `${formatMilliseconds(latency_ms)} ms`,
    ts,
    tenant,
    ...(isOneLog ? [] : [`[${basename(dir)}]`]),
  ]
  return `${parts.map(visibleInLine).join('  ')}\n`
}
