// The switch of a tool: what turning it off, or on again, would change; and turning it off. It is kept as a block of the
// tool, without an end unless one is chosen, so a switch narrows the policy and never widens it: "on" lifts the block.
import { type NamedCaller, Refusal, resolve, resolveOptional, services, tokens } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { exactPattern, formatReference, ReferenceInputError } from '@svc/core/match'
import { z } from 'zod'
import {
  type BlockingGateway,
  changedSchema,
  finishedStep,
  operatorName,
  reasonSchema,
  secondsSchema,
} from '../admin/block-operations.js'
import { type Operation, type OperationRequest, operation } from '../admin/operation.js'
import { type Block, BlockList } from '../blocks/block.js'
import { UNVERSIONED } from '../mcp/server-versions.js'
import type { Policy } from '../policy/config.js'
import { callerSchema, effectiveAccess, policyCallers, type ReadServers } from './policy-operations.js'
import type { PolicyInForce } from './server-tools.js'

const DAY_MS = 86_400_000
/** Previews that wait while another runs. */
const MAX_WAITING = 4

export interface SwitchDependencies {
  inForce(): PolicyInForce
  blocking(): BlockingGateway
  loadText(text: string): Promise<Policy>
  readonly serversOf: ReadServers
}

const toolSchema = z.strictObject({
  server: z.string().min(1).max(4096),
  tool: z.string().min(1).max(4096),
})

const switchSchema = toolSchema.extend({
  for_sec: secondsSchema.optional().describe('Default: until it is turned on again.'),
  reason: reasonSchema,
  policy_sha256: z.string().nullable().describe('The policy in force when its effect was looked at.'),
})

const previewQuery = toolSchema.partial().extend({ lift: z.string().min(1).max(64).optional() })

const refusedSchema = z.string().nullable().describe('Reason token; null if calls are allowed.')

const previewSchema = z.object({
  policy_sha256: z.string().nullable(),
  access: z
    .array(
      z.object({
        caller: callerSchema,
        before: refusedSchema,
        after: refusedSchema,
      }),
    )
    .describe('The callers that the policy names, whose access to the tool changes.'),
  replay: z
    .object({
      from: z.iso.datetime(),
      to: z.iso.datetime(),
      read: z.int().describe('Calls in the log of this time.'),
      judged: z.int().describe('Calls that the block matches.'),
      same: z.int(),
      groups: z.array(
        z.object({ change: z.string(), tool: z.string(), why: z.string(), calls: z.int(), callers: z.int() }),
      ),
      callers: z
        .array(z.object({ caller: z.string(), calls: z.int() }))
        .describe('The callers whose calls change most.'),
      repeated: z.int().describe('Calls that the policies of then decide now as they did.'),
      decided: z.int().describe('Calls that these policies decide now.'),
      not_judged: z.array(z.string()).describe('The parts that were not read or judged.'),
    })
    .nullable()
    .describe('The decisions that would have been different; null if the gateway keeps no log of its own.'),
})

export type SwitchPreviewJson = z.output<typeof previewSchema>
export type SwitchedJson = z.output<typeof changedSchema>

export function switchOperations(dependencies: SwitchDependencies): Operation[] {
  // Previews run one after the other, because each takes time from calls.
  let last: Promise<unknown> = Promise.resolve()
  let unfinished = 0
  return [
    operation({
      method: 'GET',
      path: '/api/policy/switch',
      name: 'preview_switch',
      summary:
        'Returns what turning a tool off (?server=&tool=), or lifting a block (&lift=ID), would change, and would have changed in the last 24 hours.',
      access: 'auditor',
      query: previewQuery,
      response: previewSchema,
      async run(request): Promise<SwitchPreviewJson> {
        if (unfinished > MAX_WAITING)
          throw new Refusal('RATE_LIMITED', `${MAX_WAITING} previews wait already; try again soon.`)
        unfinished++
        const preview = last.then(() => previewOf(dependencies, request)).finally(() => unfinished--)
        last = Promise.allSettled([preview])
        return preview
      },
    }),
    operation({
      method: 'POST',
      path: '/api/policy/switch',
      name: 'turn_off_tool',
      summary: 'Turns a tool off for every caller, until it is turned on again or for a time.',
      access: 'operator',
      isUnrecorded: true,
      body: switchSchema,
      response: changedSchema,
      async run({ client, body: { server, tool, for_sec: forSec, reason, policy_sha256: seen } }) {
        const { policy } = dependencies.inForce()
        if (policy.host.admin?.console.edit !== true)
          throw new Refusal(
            'TOOL_NOT_ALLOWED',
            'The policy does not allow changes here (admin.console.edit).',
          )
        if (policy.sha256 !== seen)
          throw new Refusal(
            'BAD_REQUEST',
            'The policy has changed since you looked at the effect; look again.',
          )
        const given = {
          kind: 'tool',
          pattern: patternOf(server, tool),
          reason,
          by: operatorName(client),
        } as const
        const changed = dependencies
          .blocking()
          .blocks.set(given, forSec === undefined ? undefined : forSec * 1000)
        return finishedStep('set', changed, dependencies.blocking().journal, client)
      },
    }),
  ]
}

/** The pattern of this tool alone. @throws {Refusal} `BAD_REQUEST` for names that no call can have */
function patternOf(server: string, tool: string): string {
  try {
    formatReference({ server, tool, version: UNVERSIONED })
  } catch (error) {
    if (!(error instanceof ReferenceInputError)) throw error
    throw new Refusal('BAD_REQUEST', `No tool of this name can be called: ${error.message}.`, {
      cause: error,
    })
  }
  return exactPattern({ server, tool })
}

type PreviewRequest = OperationRequest<unknown, z.output<typeof previewQuery>>

async function previewOf(
  dependencies: SwitchDependencies,
  request: PreviewRequest,
): Promise<SwitchPreviewJson> {
  const { server, tool, lift } = request.query
  const { policy } = dependencies.inForce()
  const current = dependencies.blocking().blocks.list.blocks
  if (lift === undefined && (server === undefined || tool === undefined))
    throw new Refusal('BAD_REQUEST', 'Name a tool (?server=&tool=), or a block (?lift=ID).')
  const changed =
    lift === undefined ? candidate(server ?? '', tool ?? '') : current.find(({ id }) => id === lift)
  if (changed === undefined || changed.kind === 'principal')
    throw new Refusal('TARGET_NOT_FOUND', 'There is no such block of a tool or a server; it may have ended.')
  // Blocks of callers are not judged: records do not have all names of a caller.
  const others = current.filter((one) => one !== changed && one.kind !== 'principal')
  const [before, after] = lift === undefined ? [others, [...others, changed]] : [[...others, changed], others]
  return {
    policy_sha256: policy.sha256,
    access: await accessChanges(dependencies, request, before, after),
    replay: await replayOf(dependencies, request.policy, changed, after),
  }
}

function candidate(server: string, tool: string): Block {
  const at = new Date(0).toISOString()
  return { id: 'new', kind: 'tool', pattern: patternOf(server, tool), reason: '', by: '', at, until: null }
}

async function accessChanges(
  { inForce, serversOf }: SwitchDependencies,
  request: PreviewRequest,
  before: readonly Block[],
  after: readonly Block[],
): Promise<SwitchPreviewJson['access']> {
  const { policy } = inForce()
  const callers = policyCallers(policy)
  const { server, tool } = request.query
  if (server === undefined || tool === undefined) return []
  const known = (await serversOf(request)).find((one) => one.server === server)
  const found = known?.tools.find(({ name }) => name === tool)
  const tools = { server, tools: [found ?? { name: tool, version: UNVERSIONED }] }
  const refusals = async (blocks: readonly Block[]) => {
    await using access = await effectiveAccess(inForce(), { current: () => new BlockList(blocks) })
    return Promise.all(callers.map(async (caller) => (await access.judge(caller, tools))[0]?.refused ?? null))
  }
  const [was, is] = [await refusals(before), await refusals(after)]
  return callers.flatMap((caller: NamedCaller, at) =>
    was[at] === is[at] ? [] : [{ caller, before: was[at] ?? null, after: is[at] ?? null }],
  )
}

async function replayOf(
  { inForce, loadText }: SwitchDependencies,
  active: OperationRequest['policy'],
  changed: Block,
  after: readonly Block[],
): Promise<SwitchPreviewJson['replay']> {
  const { dir } = resolveOptional(active.container, services.auditLog) ?? {}
  if (dir === undefined) return null
  const until = resolve(active.container, tokens.Clock).now()
  const since = until - DAY_MS
  const only = new BlockList([changed])
  const blocksAfter = new BlockList(after)
  const { replayBlock } = await import('../policy-tools/replay/replay-block.js')
  const { place, policy } = inForce()
  const logger = resolve(active.container, tokens.Logger)
  const replay = await replayBlock({
    dir,
    since,
    until,
    place: { baseDir: place.baseDir, env: place.env ?? process.env },
    blocks: { current: () => blocksAfter },
    isOn: ({ server, readings, kind }) =>
      (only.findServer(server) ?? only.findReference(readings, kind)) !== undefined,
    policy,
    loadKept: (text) =>
      loadText(text).catch((error: unknown) => {
        logger.debug({ reason: messageOf(error) }, 'a policy that was in force no longer loads')
        return undefined
      }),
  })
  const { stoppedAt, notJudged, groups, callers, ...counts } = replay
  return {
    from: new Date(since).toISOString(),
    to: new Date(until).toISOString(),
    ...counts,
    groups: groups.map(({ first: _, last: __, ...group }) => group),
    callers: [...callers],
    not_judged: [
      ...(stoppedAt === undefined ? [] : [`calls from ${stoppedAt} on: reading took too long`]),
      ...[...notJudged].map(([error, calls]) => `${calls} calls that ended with ${error}`),
      'whether the log is intact, limits, approvals, calls that never came',
    ],
  }
}
