// The completion script of fish.
import { type CompletedCommand, type CompletedValue, programNames } from './commands.js'

export function fishScript(commands: readonly CompletedCommand[]): string {
  const [name, ...others] = programNames
  return `# Completion of svc and svc-sdk, made by \`svc completion fish\`.
set -g __svc_commands ${commands
    .slice(1)
    .map(({ path }) => quoted(path))
    .join(' ')}
function __svc_at
  set -l path
  for word in (commandline -opc)[2..-1]
    contains -- (string join ' ' -- $path $word) $__svc_commands
    and set -a path $word
  end
  test "$path" = "$argv[1]"
end
complete -c ${name} -e
complete -c ${name} -f
${commands.flatMap((command) => linesOf(command).map((line) => `complete -c ${name} ${line}`)).join('\n')}
${others.map((other) => `complete -c ${other} -w ${name}`).join('\n')}
`
}

function linesOf({ path, subcommands, options, argument }: CompletedCommand): string[] {
  const here = `-n ${quoted(`__svc_at ${quoted(path)}`)}`
  const names = subcommands.map(({ name, description }) => `${here} -a ${name} -d ${quoted(description)}`)
  const flags = options.map(
    ({ name, description, value }) =>
      `${here} -l ${name.slice(2)}${value === undefined ? '' : completedValue(value)} -d ${quoted(description)}`,
  )
  const own = argument.kind === 'choice' ? [`${here} -a ${quoted(argument.choices.join(' '))}`] : []
  return [...names, ...flags, ...own, ...(argument.kind === 'path' ? [`${here} -F`] : [])]
}

function completedValue({ kind, choices }: CompletedValue): string {
  if (kind === 'choice') return ` -x -a ${quoted(choices.join(' '))}`
  return kind === 'path' ? ' -rF' : ' -x'
}

function quoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}
