// The schema of a target that is a command: an MCP server that the gateway starts and speaks to over stdio.
import { sha256Hex } from '@svc/core/json'
import { z } from 'zod'

const milliseconds = (min: number, what: string) =>
  z.int().min(min).max(86_400_000).describe(`${what}, in milliseconds.`)

const count = (what: string) => z.int().min(1).max(10_000).describe(`${what}.`)

/** Other clients of MCP have `url` in such a mapping. */
function missingCommand({ input }: { readonly input?: unknown }): string | undefined {
  if (input !== undefined) return undefined
  return 'accepted is the program of an MCP server over stdio; a server with a URL has its URL in place of the mapping'
}

export const stdioTargetSchema = z
  .strictObject({
    command: z
      .string({ error: missingCommand })
      .min(1)
      .describe(
        'The program of an MCP server over stdio. A name is looked up in PATH; a path starts from the directory of the policy, or from the home directory with `~/`.',
      ),
    args: z
      .array(z.string())
      .default([])
      .describe(
        `Its arguments; no shell reads them. One that is \`\${file://PATH}\` is the text of that file, and one that begins with \`~/\` or \`\${HOME}/\` is a path in the home directory.`,
      ),
    env: z
      .record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/), z.string())
      .default({})
      .describe(
        'Its environment, beside the few variables that every server gets; `env:NAME`, `file://PATH` and `command:NAME` are references to secrets.',
      ),
    cwd: z
      .string()
      .min(1)
      .optional()
      .describe('Its working directory, relative to the policy; default: the directory of the policy.'),
    isolate: z
      .enum(['gateway', 'session', 'principal'])
      .default('gateway')
      .describe('Who shares a process: all callers, or only one MCP session, or only one caller.'),
    start: z
      .enum(['first_use', 'at_start'])
      .default('first_use')
      .describe('When the process starts: with the first call, or with the gateway.'),
    idle_ms: milliseconds(1, 'Time without calls and streams after which the process is stopped')
      .optional()
      .describe(
        'Time without calls and streams after which the process is stopped, in milliseconds. Default: never for `isolate: gateway`, else 600000.',
      ),
    max_processes: count(
      'Number of processes of this target at a time, for `isolate: session` and `principal`',
    ).default(32),
    max_concurrent: count(
      'Number of requests that a process works on at a time; others wait. Of a process that all callers share, one tenant has at most three quarters, and one caller half',
    ).default(32),
    max_sessions_per_caller: count(
      'Number of MCP sessions of one caller at a time; one more ends the oldest idle one, and is RATE_LIMITED if none is idle',
    ).default(1_000),
    start_timeout_ms: milliseconds(1, 'Time that the server has to complete the handshake').default(30_000),
    stop_timeout_ms: milliseconds(
      0,
      'Time that the server has to exit after its input closed, and again after SIGTERM, before SIGKILL',
    ).default(2_000),
    restart: z
      .strictObject({
        base_ms: milliseconds(
          0,
          'Wait after the second failure in a row; doubled with each further one',
        ).default(1_000),
        max_ms: milliseconds(0, 'Longest wait').default(60_000),
        limit: count('Starts in a row that may fail; then the server stays down until a reload').default(10),
      })
      .prefault({})
      .describe('When a server that exited may start again.'),
  })
  .superRefine(({ start, isolate }, context) => {
    if (start === 'at_start' && isolate !== 'gateway') {
      const message = 'at_start has a meaning only with `isolate: gateway`; accepted is first_use'
      context.addIssue({ code: 'custom', path: ['start'], message })
    }
  })

export type StdioTarget = z.output<typeof stdioTargetSchema>
/** A target as options may have it, before defaults. */
export type StdioTargetOptions = z.input<typeof stdioTargetSchema>

/** The targets of a policy: base URLs, and commands. */
export type Targets = Readonly<Record<string, string | StdioTarget>>

/** The address of a server over stdio, in place of a URL. A changed command has another address and other processes. */
function stdioAddress(server: string, target: StdioTarget): string {
  return `stdio:///${encodeURIComponent(server)}/${sha256Hex(JSON.stringify(target))}`
}

/** The address of each target as a string. */
export function addressesOf(targets: Targets): Record<string, string> {
  return Object.fromEntries(
    Object.entries(targets).map(([server, target]) => [
      server,
      typeof target === 'string' ? target : stdioAddress(server, target),
    ]),
  )
}

/** The targets that are commands, by their addresses. */
export function stdioTargetsOf(targets: Targets): Map<string, { server: string; target: StdioTarget }> {
  return new Map(
    Object.entries(targets).flatMap(([server, target]) =>
      typeof target === 'string' ? [] : [[stdioAddress(server, target), { server, target }] as const],
    ),
  )
}
