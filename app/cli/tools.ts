// `svc tools`: locks the definitions of servers in a file; shows those that wait at a gateway, and accepts them.
import { existsSync, writeFileSync } from 'node:fs'
import { relative, resolve } from 'node:path'
import { messageOf, visibleInLine } from '@svc/core/json'
import { formatDiagnostic } from '@svc/core/policy'
import { Command } from 'commander'
import { z } from 'zod'
import { type AdminFlags, adminClientOf, parseAdminResponse, withAdminOptions } from './admin-options.js'
import { type CliIo, type Environment, processIo } from './io.js'
import { withManual } from './manual.js'
import { ownCommand } from './own-command.js'

const reviewSchema = z.object({
  server: z.string(),
  review: z.string(),
  definitions: z.array(
    z.object({
      kind: z.string(),
      name: z.string(),
      pinned: z.array(z.string()),
      difference: z.array(z.string()).optional(),
    }),
  ),
})

type Review = z.output<typeof reviewSchema>

export function toolsCommand(io: CliIo = processIo(), env: Environment = process.env): Command {
  const tools = new Command('tools')

  const locking = tools
    .command('lock')
    .description('write the definitions of the servers of a policy to its lock file')
    .argument('<file>', 'the policy file')
    .argument('[servers...]', 'only these; the file keeps what it has of others')
    .option('--out <file>', 'the lock file (default: that of the policy, else tools.lock.yaml beside it)')
    .action((file: string, servers: string[], flags: { out?: string }) =>
      lock(file, servers, flags.out, io, env),
    )
  withManual(locking, { example: 'policy.yaml' })

  const diffing = withAdminOptions(tools.command('diff'))
    .description('show how the definitions that wait differ from those that are pinned')
    .action((flags: AdminFlags) => diff(flags, io, env))
  withManual(diffing, { example: '--policy policy.yaml' })

  const accepting = withAdminOptions(tools.command('accept'))
    .description('pin the definitions of a server that wait')
    .argument('<server>', 'the server, as `tools diff` prints it')
    .requiredOption('--review <name>', 'the review that you have read, as `tools diff` prints it')
    .action((server: string, flags: AdminFlags & { review: string }) => accept(server, flags, io, env))
  withManual(accepting, { example: 'files --review 7f3a90c1d2e4b586 --policy policy.yaml' })
  return tools
}

async function diff(flags: AdminFlags, io: CliIo, env: Environment): Promise<void> {
  const client = await adminClientOf(flags, env)
  const response = await client.ask('api/definitions')
  if (flags.json === true) return io.out(`${JSON.stringify(response)}\n`)
  const { servers } = parseAdminResponse(z.object({ servers: z.array(reviewSchema) }), response)
  await io.out(servers.length === 0 ? 'no definition waits\n' : servers.map(reviewText).join('\n'))
}

function reviewText({ server, review, definitions }: Review): string {
  const lines = definitions.flatMap(({ kind, name, pinned, difference }) => [
    `  ${kind}${name === '' ? '' : ` ${visibleInLine(name)}`}: ${pinned.length === 0 ? 'new' : 'changed'}`,
    ...(difference ?? ['its text is no longer kept']).map((line) => `    ${line}`),
  ])
  const named = visibleInLine(server)
  const head = `${named}: ${definitions.length} ${definitions.length === 1 ? 'definition waits' : 'definitions wait'}`
  return `${head}\n${lines.join('\n')}\n  to accept: ${ownCommand()} tools accept ${named} --review ${visibleInLine(review)}\n`
}

async function accept(
  server: string,
  flags: AdminFlags & { readonly review: string },
  io: CliIo,
  env: Environment,
): Promise<void> {
  const client = await adminClientOf(flags, env)
  const response = await client.ask('api/definitions/accept', { server, review: flags.review })
  if (flags.json === true) return io.out(`${JSON.stringify(response)}\n`)
  const { definitions } = parseAdminResponse(reviewSchema, response)
  const names = definitions.map(({ kind, name }) => visibleInLine(`${kind} ${name}`.trim()))
  await io.out(`accepted of ${visibleInLine(server)}: ${names.join(', ')}\n`)
}

const sectionSchema = z
  .object({ definitions: z.object({ lock: z.string().optional() }).optional() })
  .optional()

async function lock(
  file: string,
  named: readonly string[],
  out: string | undefined,
  io: CliIo,
  env: Environment,
): Promise<void> {
  // Imported here, because they load every plugin.
  const { baseDirOf, loadPolicyFile } = await import('./policy-file.js')
  const { commandContext } = await import('../policy-tools/explain/command-context.js')
  const { listDefinitions } = await import('../doctor/listed-definitions.js')
  const { lockFileText, readLockFile } = await import('@svc/plugin-protections')
  const result = await loadPolicyFile(file, env, false)
  if (!result.ok) throw new Error(result.mistakes.slice(0, 1).map(formatDiagnostic).join(''))
  const { policy } = result
  const baseDir = baseDirOf(file)
  const context = commandContext(policy, { baseDir, env, warn: () => undefined })
  const configured = sectionSchema.parse(policy.sections.get('protections'))?.definitions?.lock
  const path = out === undefined ? resolve(baseDir, configured ?? 'tools.lock.yaml') : resolve(out)
  const read: Record<string, object> = {}
  for (const server of named.length === 0 ? Object.keys(policy.host.targets) : named) {
    try {
      read[server] = await listDefinitions(server, policy, context)
    } catch (cause) {
      const hint = named.length === 0 ? '; name the servers that are to be read' : ''
      throw new Error(`${server}: ${messageOf(cause)}; nothing is written${hint}`, { cause })
    }
  }
  const kept = named.length > 0 && existsSync(path) ? readLockFile(path, baseDir).servers : {}
  writeFileSync(path, lockFileText({ ...kept, ...read }))
  const written = relative(process.cwd(), path)
  await io.out(`${countsOf(read)}${written} is written; review it before you load the policy\n`)
  if (configured !== undefined) return
  const lockPath = relative(baseDir, path)
  io.err(`the policy does not use it yet: protections: { definitions: { lock: ${lockPath} } }\n`)
}

function countsOf(servers: Readonly<Record<string, object>>): string {
  return Object.entries(servers)
    .map(([server, lists]) => {
      const counts = Object.entries(lists).map(([kind, entries]: [string, readonly unknown[]]) =>
        kind === 'instructions' ? kind : `${entries.length} ${kind}`,
      )
      return `${visibleInLine(server)}: ${counts.length === 0 ? 'nothing' : counts.join(', ')}\n`
    })
    .join('')
}
