// Draws a terminal session as an animated SVG: typed commands, their output, scrolling. Light and dark; with reduced motion,
// and wherever styles are not animated, it shows the end.
const columns = 110
const rows = 27
const charWidth = 7.4
const lineHeight = 18
const left = 16
const top = 44
const width = Math.ceil(left * 2 + columns * charWidth)
const height = top + rows * lineHeight + 12
const secondsPerChar = 0.018

/** `steps` have a `comment`, a `command` and its `output`. */
export function animate(steps) {
  const lines = []
  let now = 0.8
  for (const { comment, command, output } of steps) {
    if (comment !== '') lines.push({ at: now, kind: 'comment', text: `# ${comment}` })
    const typed = wrapped(`$ ${command}`)
    for (const text of typed) {
      const typing = text.length * secondsPerChar
      lines.push({ at: now, kind: 'command', text, typing })
      now += typing
    }
    now += 0.3
    for (const text of output.split('\n').slice(0, -1).flatMap(wrapped)) {
      lines.push({ at: now, kind: kindOf(output), text })
    }
    now += 0.4 + Math.min(1.6, output.length / 300)
    lines.push({ at: now, kind: 'output', text: '' })
  }
  lines.pop()
  const total = now + 5
  const percent = (seconds) => `${((seconds / total) * 100).toFixed(4)}%`

  const lineStyles = lines.map(({ at, typing }, index) => {
    const hidden = `@keyframes l${index}{0%,${percent(at)}{opacity:0}${percent(at + 0.01)},100%{opacity:1}}`
    if (typing === undefined) return hidden
    const from = 'clip-path:inset(0 100% 0 0)'
    const to = 'clip-path:inset(0 0 0 0)'
    return `${hidden}@keyframes t${index}{0%{${from}}${percent(at)}{${from};animation-timing-function:steps(${lines[index].text.length})}${percent(at + typing)}{${to}}100%{${to}}}`
  })
  // Lines of one output appear, and scroll, at once.
  const scrolls = [
    ...new Map(
      lines.flatMap(({ at }, index) => (index < rows ? [] : [[at, (rows - 1 - index) * lineHeight]])),
    ),
  ]
  const final = scrolls.at(-1)?.[1] ?? 0
  const scrolling = scrolls
    .map(([at, y], index) => {
      const before = scrolls[index - 1]?.[1] ?? 0
      return `${percent(at - 0.01)}{transform:translateY(${before}px)}${percent(at)}{transform:translateY(${y}px)}`
    })
    .join('')
  const each = (animation) => `${animation} ${total.toFixed(2)}s linear infinite`

  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="title desc">
<title id="title">A terminal session: an allowed call, a denied one, one that is approved, and the verified log</title>
<desc id="desc">${escaped(steps.map(({ command, output }) => `$ ${command}\n${output}`).join(''))}</desc>
<style>
.page{fill:#fff;stroke:#d0d7de}.bar{fill:#f6f8fa}.dot{fill:#afb8c1}
text{font:12.3px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#1f2328;white-space:pre}
.name,.comment{fill:#59636e}.command{font-weight:600}.allowed{fill:#1a7f37}.denied{fill:#cf222e}.waiting{fill:#9a6700}
@media (prefers-color-scheme:dark){.page{fill:#0d1117;stroke:#30363d}.bar{fill:#161b22}.dot{fill:#484f58}text{fill:#e6edf3}
.name,.comment{fill:#9198a1}.allowed{fill:#3fb950}.denied{fill:#f85149}.waiting{fill:#d29922}}
#scroll{transform:translateY(${final}px)}
@media (prefers-reduced-motion:no-preference){
#scroll{animation:${each('scroll')}}@keyframes scroll{0%{transform:translateY(0)}${scrolling}100%{transform:translateY(${final}px)}}
${lines.map(({ typing }, index) => `#l${index}{animation:${each(`l${index}`)}${typing === undefined ? '' : `,${each(`t${index}`)}`}}`).join('')}
${lineStyles.join('\n')}
}
</style>
<clipPath id="screen"><rect x="0" y="${top - lineHeight + 5}" width="${width}" height="${rows * lineHeight + 8}"/></clipPath>
<rect class="page" x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="8"/>
<path class="bar" d="M1 26V9a8 8 0 0 1 8-8h${width - 18}a8 8 0 0 1 8 8v17z"/>
<circle class="dot" cx="18" cy="14" r="5"/><circle class="dot" cx="36" cy="14" r="5"/><circle class="dot" cx="54" cy="14" r="5"/>
<text class="name" x="${width / 2}" y="18" text-anchor="middle">examples/quick-start</text>
<g clip-path="url(#screen)"><g id="scroll">
${lines.map(({ kind, text }, index) => `<text id="l${index}" class="${kind}" x="${left}" y="${top + index * lineHeight}" textLength="${(text.length * charWidth).toFixed(1)}" lengthAdjust="spacingAndGlyphs">${escaped(text)}</text>`).join('\n')}
</g></g>
</svg>
`
}

/** What the colour of an output says. */
function kindOf(output) {
  if (output.includes('"error":"TOOL_NOT_ALLOWED"')) return 'denied'
  if (output.includes('"error":"ESCALATION_PENDING"')) return 'waiting'
  return output.startsWith('{') || output.includes('\nintact') || output.includes('approved')
    ? 'allowed'
    : 'output'
}

/** As a terminal of this width breaks a line. */
function wrapped(line) {
  const pieces = line.match(new RegExp(`.{1,${columns}}`, 'gu'))
  return pieces ?? ['']
}

function escaped(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
