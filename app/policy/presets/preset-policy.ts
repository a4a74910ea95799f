// The presets: whole policies for servers of one machine, in plain YAML that its owner can read and change.
import { visible } from '@svc/core/json'

export const presets = ['observe', 'guard'] as const
/** `observe` denies nothing and records what `guard` would refuse. */
export type Preset = (typeof presets)[number]

/** The command of an MCP server over stdio, as a policy has it. */
export interface PresetCommand {
  readonly command: string
  readonly args?: readonly string[]
  /** Values are best references: `env:NAME`, `file://PATH`. */
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
}

/** The facts about the machine that a preset needs. Relative paths start from the directory of the policy. */
export interface PresetPlace {
  /** URLs and commands by the name of the server. */
  readonly targets: Readonly<Record<string, string | PresetCommand>>
  readonly port: number
  /** The directory of the gateway's files. */
  readonly stateDir: string
  /** `audit` in that directory by default. */
  readonly logDir?: string
  readonly keyPath: string
  /** The user of calls over stdio, who sends no token. */
  readonly user: string
  /** Absolute directories whose files arguments of commands may name. */
  readonly directories: readonly string[]
  /** The working directory of the commands, if relative paths in arguments may name its files. */
  readonly root?: string
  /** The listener for approvals; without it nobody can approve, and what would wait for an approval is denied. */
  readonly admin?: { readonly port: number; readonly tokenPath: string }
}

interface RiskyTools {
  readonly name: string
  /** A description of what the tools do, by their names. */
  readonly message: string
  readonly tools: readonly string[]
}

const riskyTools: readonly RiskyTools[] = [
  {
    name: 'deletions',
    message: 'its name says that it deletes',
    tools: [
      '*delete*',
      '*remove*',
      '*drop*',
      '*destroy*',
      '*erase*',
      '*purge*',
      '*wipe*',
      '*truncate*',
      '*revoke*',
      '*unlink*',
      'rm',
      'rm_*',
    ],
  },
  {
    name: 'commands',
    message: 'its name says that it runs or ends programs',
    tools: [
      '*exec*',
      '*shell*',
      '*terminal*',
      '*run_command*',
      'runcommand*',
      'bash',
      '*_bash',
      'kill*',
      '*uninstall*',
      '*terminate*',
    ],
  },
  {
    name: 'payments',
    message: 'its name says that it moves money',
    tools: ['pay', 'pay_*', '*_pay', '*transfer*', '*refund*', '*purchase*', '*checkout*', 'send*money*'],
  },
]

/** The text of the policy. It loads without a warning. */
export function presetPolicy(preset: Preset, place: PresetPlace): string {
  const { targets, port, stateDir, logDir, keyPath, user, admin } = place
  const isObserved = preset === 'observe'
  return `${heading[preset]}
# Every key: docs/reference/policy.md of svc-sdk. After a change: npx svc-sdk policy check FILE

# The tenant of calls without a token, and the port of \`npx svc-sdk gateway\` on this machine.
tenant: local
port: ${port}

# The governed servers. A command gets only the variables in its env; env:NAME takes one from the environment.
targets:${lines(Object.entries(targets).flatMap(targetLines), '  ', ' {}')}

# Directory of what the gateway writes.
sec0Dir: ${scalar(stateDir)}

# Each call, also a refused one, becomes a signed line of the log.
audit:
  gatewayName: local
  gatewayVersion: 1.0.0
${logDir === undefined ? '' : `  dir: ${scalar(logDir)}\n`}  signer: { keyRef: ${reference(keyPath)} }

# Who calls: programs of this machine, without a token. A gateway for others has authn.oidc instead.
authn:
  allowUnauthenticated: true
  stdioCaller: { user: ${scalar(user)} }

# true: records have pseudonyms in place of names.
privacy: { redact_identities: false }

# Which tools may be used: all. Limits count for each tool.
entitlements:
  default_plan: local
  plans:
    local:
      allowlist: ["*"]
${limits(isObserved)}
  tenants: {}

# What a call may contain, and how large and long it may be.
security:
  egress_allowlist: ["*"] # URLs of public hosts; not of this machine, a private network or a cloud's metadata
${filesystem(place)}
  limits: { max_payload_kb: 2048, max_duration_ms: 300000 }
  side_effects: { unknown: effect } # a tool of which nothing says that it only reads counts as one that may change something

# Tools whose names say that they ${admin === undefined ? 'do harm are denied' : 'may do harm wait for an approval'}.
rules:${lines(
    riskyTools.flatMap((risky) => ruleLines(risky, admin)),
    '  ',
  )}

# Definitions of tools that changed are withheld until they are accepted, and what attacks the model is removed.
protections:
  preset: guard
  definitions: { trust: scan } # accept: the first definition of each tool waits, too
  schema: report # enforce: refuses arguments that do not fit the schema of their tool

# Where calls are counted for the limits: on disk, for all processes of this machine.
quotas: { adapter: lmdb }

# observe: findings are recorded (would_deny). enforce: they deny the call.
enforcement:
  mode: ${isObserved ? 'observe' : 'enforce'}
${approvalListener(admin)}`
}

const heading: Readonly<Record<Preset, string>> = {
  observe: `# Preset observe: no call is denied, and records say what guard would refuse. To refuse it:
# set enforcement.mode to enforce and take the marks off the limits.`,
  guard: `# Preset guard: refuses private addresses, files outside the known directories, large or long calls and risky tools.`,
}

function lines(all: readonly string[], indent: string, none = ' []'): string {
  return all.length === 0 ? none : all.map((line) => `\n${indent}${line}`).join('')
}

function targetLines([name, target]: readonly [string, string | PresetCommand]): string[] {
  if (typeof target === 'string') return [`${scalar(name)}: ${scalar(target)}`]
  const { command, args = [], env = {}, cwd } = target
  const variables = Object.entries(env).map(([key, value]) => `${scalar(key)}: ${scalar(value)}`)
  return [
    `${scalar(name)}:`,
    `  command: ${scalar(command)}`,
    ...(args.length === 0 ? [] : [`  args: [${args.map(scalar).join(', ')}]`]),
    ...(variables.length === 0 ? [] : [`  env: { ${variables.join(', ')} }`]),
    ...(cwd === undefined ? [] : [`  cwd: ${scalar(cwd)}`]),
  ]
}

/** Limits are not findings: they refuse calls in every mode, so a policy that denies nothing has none. */
function limits(isObserved: boolean): string {
  return ['calls_per_day: 5000', 'rate_per_sec: 10', 'burst: 50']
    .map((limit) => `      ${isObserved ? '# ' : ''}${limit}`)
    .join('\n')
}

/** Paths in arguments for a server with a URL are not of this machine. */
function filesystem({ targets, directories, root }: PresetPlace): string {
  if (!Object.values(targets).some((target) => typeof target !== 'string')) {
    return '  # fs_allowlist: [/srv/data/**] # directories of files, if a server opens files'
  }
  const all = root === undefined ? directories : [...new Set([root, ...directories])]
  const patterns = all.map((directory) => scalar(`${slashed(directory)}/**`)).join(', ')
  const base = root === undefined ? '' : `  fs_root: ${scalar(slashed(root))} # base of relative paths\n`
  return `${base}  fs_allowlist: [${patterns}] # directories of the files that arguments may name`
}

function slashed(directory: string): string {
  return directory.replaceAll('\\', '/').replace(/\/$/, '')
}

function ruleLines({ name, message, tools }: RiskyTools, admin: PresetPlace['admin']): string[] {
  return [
    `- name: ${name}`,
    `  tools: [${tools.map(scalar).join(', ')}]`,
    `  then: ${admin === undefined ? 'deny' : 'escalate'}`,
    `  message: ${message}`,
  ]
}

function approvalListener(admin: PresetPlace['admin']): string {
  if (admin === undefined) return ''
  return `
# Where approvals are given (npx svc-sdk escalations list); its token is in the file.
admin: { port: ${admin.port}, tokenRef: ${reference(admin.tokenPath)} }
`
}

function reference(path: string): string {
  return scalar(`file://${path.replaceAll('%', '%25')}`)
}

/** A string that YAML could read as something else, or could not print, is a JSON string, which YAML reads too. */
function scalar(text: string): string {
  const isPlain =
    /^[A-Za-z/.][\w/.@+-]*(?::\/\/[\w/.@:+-]*\w)?$/.test(text) || /^(?:-{1,2}|env:)[a-z][\w-]*$/i.test(text)
  return isPlain && !/^(?:true|false|null|yes|no|on|off|y|n|\.(?:nan|inf)|\.\d.*)$/i.test(text)
    ? text
    : visible(JSON.stringify(text))
}
