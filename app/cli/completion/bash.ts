// The completion script of bash, for version 3.2 and later.
import { type CompletedCommand, type CompletedValue, programNames } from './commands.js'

export function bashScript(commands: readonly CompletedCommand[]): string {
  return `# Completion of svc and svc-sdk, made by \`svc completion bash\`.
_svc() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} path= word
  # Readline makes a word of its own of the = between an option and its value.
  if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=\${COMP_WORDS[COMP_CWORD-2]}; fi
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [[ $word == -- ]] && return
    case "\${path:+$path }$word" in
      ${commands
        .slice(1)
        .map(({ path }) => `'${path}'`)
        .join(' | ')}) path="\${path:+$path }$word" ;;
    esac
  done
  COMPREPLY=()
  case "$path $prev" in
${commands.flatMap(optionValues).join('\n')}
  esac
  case "$path" in
${commands.map(wordsOf).join('\n')}
  esac
}
complete -o bashdefault -o default -F _svc ${programNames.join(' ')}
`
}

function optionValues({ path, options }: CompletedCommand): string[] {
  return options.flatMap(({ name, value }) =>
    value === undefined ? [] : `    '${path} ${name}') ${repliesOf(value)}; return ;;`,
  )
}

function wordsOf({ path, subcommands, options, argument }: CompletedCommand): string {
  const flags = words(options.map(({ name }) => name))
  const others = subcommands.length > 0 ? words(subcommands.map(({ name }) => name)) : repliesOf(argument)
  return `    '${path}') if [[ $cur == -* ]]; then ${flags}; else ${others}; fi ;;`
}

/** Without a reply bash completes paths, unless that is taken from it. */
function repliesOf({ kind, choices }: CompletedValue): string {
  if (kind === 'choice') return words(choices)
  return kind === 'path' ? ':' : 'compopt +o default +o bashdefault 2> /dev/null'
}

function words(choices: readonly string[]): string {
  return `COMPREPLY=($(compgen -W '${choices.join(' ')}' -- "$cur"))`
}
