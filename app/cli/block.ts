// `svc block`: refuses calls of a caller, of a tool or to a server at once, in every gateway of a deployment.
import { visibleInLine } from '@svc/core/json'
import { Command, InvalidArgumentError } from 'commander'
import { z } from 'zod'
import { AdminError } from './admin-client.js'
import { type AdminFlags, adminClientOf, parseAdminResponse, withAdminOptions } from './admin-options.js'
import { type CliIo, type Environment, processIo } from './io.js'
import { withManual } from './manual.js'
import { table } from './table.js'

const blockSchema = z.object({
  id: z.string(),
  kind: z.string(),
  pattern: z.string(),
  reason: z.string(),
  by: z.string(),
  at: z.string(),
  until: z.string().nullable(),
})

const changedSchema = z.object({
  block: blockSchema,
  acknowledged: z.array(z.string()),
  silent: z.array(z.object({ gateway: z.string(), silent_ms: z.number() })),
  store_error: z.string().optional(),
  recorded: z.boolean(),
  warning: z.string().optional(),
})

const listSchema = z.object({ blocks: z.array(blockSchema) })

interface SetFlags extends AdminFlags {
  readonly principal?: string
  readonly tool?: string
  readonly server?: string
  readonly for?: number
  readonly reason?: string
}

const applied = ['applied by every gateway and recorded', 'not by every one, or not recorded'] as const

export function blockCommand(io: CliIo = processIo(), env: Environment = process.env): Command {
  const block = withAdminOptions(new Command('block'))
    .description('refuse calls at once, in every gateway, for a time')
    .option('--principal <pattern>', 'calls of these users, subjects or clients')
    .option('--tool <pattern>', 'calls of these tools, prompts or resources, as in a denylist')
    .option('--server <pattern>', 'calls to these servers')
    .option('--for <time>', 'for how long: 30s, 15m, 2h, 7d; at most 30d', seconds)
    .option('--reason <text>', 'for the record and the notice; callers do not see it')
    .action((flags: SetFlags) => set(flags, block, io, env))
  withManual(block, {
    example: "--principal ann@acme.example --for 2h --reason 'stolen token' --policy p.yaml",
    verdicts: applied,
  })

  const listing = withAdminOptions(block.command('list'))
    .description('list what is blocked')
    .action((_: AdminFlags, command: Command) => list(command.optsWithGlobals(), io, env))
  withManual(listing, { example: '--policy policy.yaml' })

  const lifting = withAdminOptions(block.command('lift'))
    .description('end a block')
    .argument('<id>', 'its id, as `block list` prints it')
    .action((id: string, _: AdminFlags, command: Command) => lift(id, command.optsWithGlobals(), io, env))
  withManual(lifting, { example: '3f2a9c1d04be --policy policy.yaml', verdicts: applied })
  return block
}

async function set(flags: SetFlags, command: Command, io: CliIo, env: Environment): Promise<void> {
  const { principal, tool, server, for: forSec, reason } = flags
  const given = Object.entries({ principal, tool, server }).filter(([, pattern]) => pattern !== undefined)
  const [only] = given
  if (only === undefined || given.length > 1)
    return command.error('give one of --principal, --tool and --server')
  if (forSec === undefined) return command.error('--for is missing: say how long, such as --for 2h')
  if (reason === undefined) return command.error('--reason is missing: say why, for the record')
  const [kind, pattern] = only
  const client = await adminClientOf(flags, env)
  const response = await client.ask('api/blocks', { kind, pattern, for_sec: forSec, reason })
  await report('blocked', response, flags, io)
}

async function lift(id: string, flags: SetFlags, io: CliIo, env: Environment): Promise<void> {
  if (!/^[\w-]{1,64}$/.test(id)) throw new AdminError(`${JSON.stringify(id)} is not the id of a block`)
  const client = await adminClientOf(flags, env)
  const { reason } = flags
  const body = reason === undefined ? {} : { reason }
  await report('lifted', await client.ask(`api/blocks/${id}/lift`, body), flags, io)
}

async function list(flags: AdminFlags, io: CliIo, env: Environment): Promise<void> {
  const client = await adminClientOf(flags, env)
  const response = await client.ask('api/blocks')
  if (flags.json === true) return io.out(`${JSON.stringify(response)}\n`)
  const { blocks } = parseAdminResponse(listSchema, response)
  if (blocks.length === 0) return io.out('nothing is blocked\n')
  const rows = blocks.map(({ id, kind, pattern, until, by, reason }) => [
    id,
    kind,
    pattern,
    until ?? 'lifted',
    by,
    reason,
  ])
  await io.out(
    table([['ID', 'WHAT', 'PATTERN', 'UNTIL', 'BY', 'REASON'], ...rows.map((row) => row.map(visibleInLine))]),
  )
}

async function report(done: string, response: unknown, flags: AdminFlags, io: CliIo): Promise<void> {
  const { block, acknowledged, silent, store_error, recorded, warning } = parseAdminResponse(
    changedSchema,
    response,
  )
  if (silent.length > 0 || store_error !== undefined || !recorded) io.exit(1)
  if (flags.json === true) return io.out(`${JSON.stringify(response)}\n`)
  const { id, kind, pattern, until } = block
  const lines = [
    `${done}: ${kind} ${pattern}${done === 'blocked' && until !== null ? ` until ${until}` : ''}, block ${id}`,
    `applied by ${acknowledged.length} of ${acknowledged.length + silent.length}: ${acknowledged.join(', ')}`,
    ...silent.map(
      ({ gateway, silent_ms }) =>
        `NOT APPLIED by ${gateway}, silent for ${Math.round(silent_ms / 1000)} s; end it if it still runs`,
    ),
    ...(store_error === undefined
      ? []
      : [`NOT SHARED: ${store_error}; other gateways apply it when the store is back`]),
    ...(warning === undefined ? [] : [`WARNING: ${warning}`]),
    ...(recorded ? [] : ['NOT RECORDED: the log cannot be written; the change is in force']),
  ]
  await io.out(lines.map((line) => `${visibleInLine(line)}\n`).join(''))
}

const units = { s: 1, m: 60, h: 3_600, d: 86_400 } as const

function seconds(text: string): number {
  const [, count, unit = ''] = /^(\d{1,8})([smhd])$/.exec(text) ?? []
  const total = Number(count) * units[unit as keyof typeof units]
  if (total >= 1 && total <= 30 * units.d) return total
  throw new InvalidArgumentError('expected a time such as 30s, 15m, 2h or 7d, at most 30d')
}
