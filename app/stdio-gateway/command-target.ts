// The target that a command line gives: the MCP server that a client would start itself.
import { basename, resolve } from 'node:path'
import type { HostConfig } from '../policy/config.js'
import { type StdioTarget, stdioTargetSchema } from '../stdio-targets/config.js'

/** Programs that run a package, whose name is the first argument that is no option. */
const packageRunners: ReadonlySet<string> = new Set(['npx', 'bunx', 'uvx', 'pipx'])
/** Programs whose arguments do not name the server. */
const interpreters: ReadonlySet<string> = new Set([
  ...['node', 'bun', 'deno', 'python', 'python3', 'ruby', 'java', 'dotnet', 'docker', 'podman'],
  ...['sh', 'bash', 'cmd', 'npm', 'pnpm', 'yarn', 'uv'],
])

/** The name of the server in references and records, as far as the command has one. */
export function serverNameOf(command: string, args: readonly string[]): string | undefined {
  const program = nameIn(command)
  if (interpreters.has(program)) return undefined
  if (!packageRunners.has(program)) return program
  const named = args.find((arg) => !arg.startsWith('-') && arg !== 'run')
  // Without scope and version: @scope/name@1.0.0.
  return named === undefined ? undefined : nameIn(named.replace(/(?<=.)@[^/]*$/, ''))
}

function nameIn(path: string): string {
  return basename(path.replaceAll('\\', '/')).replace(/\.(?:exe|cmd|js|mjs|py|sh)$/i, '')
}

/** The command as a target, run where this process runs. `variables` are those of this process that it gets too. */
export function commandTarget(
  command: string,
  args: readonly string[],
  variables: readonly string[],
): StdioTarget {
  return stdioTargetSchema.parse({
    command: /[/\\]/.test(command) ? resolve(command) : command,
    args,
    cwd: process.cwd(),
    env: Object.fromEntries(variables.map((name) => [name, `env:${name}`])),
  })
}

/**
 * A policy for one client, with `added` beside its own targets. Each server is the client's alone, so that it may ask that
 * client, and starts when it is used.
 */
export function forOneClient(host: HostConfig, added: Readonly<Record<string, StdioTarget>>): HostConfig {
  const targets = Object.entries({ ...host.targets, ...added }).map(([name, target]) => {
    const alone = { isolate: 'session', start: 'first_use' } as const
    return [name, typeof target === 'string' ? target : { ...target, ...alone }] as const
  })
  return { ...host, targets: Object.fromEntries(targets) }
}
