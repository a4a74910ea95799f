// The target that a command line gives: the MCP server that a client would start itself.
import { basename, resolve } from 'node:path'
import { canonicalize, sha256Hex } from '@svc/core/json'
import { isKeyReference } from '@svc/core/policy'
import type { PolicyAdaptation } from '../../gateway/builder.js'
import { stdioTargetSchema } from '../targets/config.js'

/** Programs that run a package, whose name is the first argument that is not an option. */
const packageRunners: ReadonlySet<string> = new Set(['npx', 'bunx', 'uvx', 'pipx'])
/** Programs whose arguments do not name the server. */
const interpreters: ReadonlySet<string> = new Set([
  ...['node', 'bun', 'deno', 'python', 'python3', 'ruby', 'java', 'dotnet', 'docker', 'podman'],
  ...['sh', 'bash', 'cmd', 'npm', 'pnpm', 'yarn', 'uv'],
])

/** The name of the server in references and records; undefined if the command does not tell it. */
export function serverNameOf(command: string, args: readonly string[]): string | undefined {
  const program = nameIn(command)
  if (interpreters.has(program)) return undefined
  if (!packageRunners.has(program)) return program
  const named = args.find((arg) => !arg.startsWith('-') && arg !== 'run')
  // `@scope/name@1.0.0` becomes `name`.
  return named === undefined ? undefined : nameIn(named.replace(/(?<=.)@[^/]*$/, ''))
}

function nameIn(path: string): string {
  return basename(path.replaceAll('\\', '/')).replace(/\.(?:exe|cmd|js|mjs|py|sh)$/i, '')
}

/** The command of one server, as the configuration of a client has it. */
export interface ServerCommand {
  /** The name of the server in references and records. */
  readonly server: string
  readonly command: string
  readonly args: readonly string[]
  /** The variables of this process that it gets too, and `NAME=REFERENCE` for others. */
  readonly env: readonly string[]
}

/** The keys of the command as a target, with the working directory of this process. */
export function commandTarget({ command, args, env }: Omit<ServerCommand, 'server'>) {
  return {
    command: /[/\\]/.test(command) ? resolve(command) : command,
    args,
    cwd: process.cwd(),
    env: Object.fromEntries(env.map(variableOf)),
  }
}

/** The value of a variable may be a secret, which the list of processes would show, so it is a reference. */
function variableOf(text: string): readonly [string, string] {
  const [, name = text, reference = `env:${text}`] = /^([^=]*)=(.*)$/s.exec(text) ?? []
  if (isKeyReference(reference)) return [name, reference]
  throw new Error(
    `--env ${name}=… is not a reference; accepted is --env ${name}, or --env ${name}=file://PATH`,
  )
}

/**
 * A policy for one client, with the command beside its own targets. Each server has this client alone, so that it may
 * ask the client, and starts when it is used. The hash covers the policy and the command. A target without a working
 * directory gets `cwd`.
 */
export function forOneClient(added: ServerCommand | undefined, cwd?: string): PolicyAdaptation {
  const commands =
    added === undefined ? {} : { [added.server]: stdioTargetSchema.parse(commandTarget(added)) }
  return {
    host(host) {
      const targets = Object.entries({ ...host.targets, ...commands }).map(([name, target]) => {
        const alone = { isolate: 'session', start: 'first_use' } as const
        const place = cwd === undefined ? {} : { cwd }
        return [name, typeof target === 'string' ? target : { ...place, ...target, ...alone }] as const
      })
      return { ...host, targets: Object.fromEntries(targets) }
    },
    // Calls come over standard input, not to a listener.
    callers: () => undefined,
    texts(texts) {
      if (added === undefined) return texts
      const [policy] = texts
      const policy_sha256 = policy === undefined ? null : sha256Hex(policy)
      return [...texts, canonicalize({ ...added, policy_sha256 })]
    },
  }
}
