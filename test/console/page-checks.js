// Runs in each page of the console, for every-view.test.ts: what the keyboard reaches there, and what the layout cuts,
// covers or pushes out of the screen.

const listeners = new WeakMap()
const { addEventListener: add } = EventTarget.prototype
EventTarget.prototype.addEventListener = function (type, ...rest) {
  listeners.set(this, (listeners.get(this) ?? new Set()).add(type.toLowerCase()))
  return add.call(this, type, ...rest)
}

const focusable = 'a[href], button, input, select, textarea, summary, [tabindex]'
const clicks = ['click', 'dblclick', 'mousedown', 'pointerdown']
const hovers = ['mouseenter', 'mouseover', 'pointerenter', 'pointerover']

const isShown = (element) => {
  const { width, height } = element.getBoundingClientRect()
  return element.checkVisibility({ visibilityProperty: true }) && width > 0 && height > 0
}
const describe = (element) => {
  const text = element.ariaLabel ?? element.textContent ?? ''
  const name = text.trim() || element.name || element.id || ''
  return `${element.localName}${element.className ? `.${element.className}` : ''} “${name.slice(0, 40)}”`
}
/** What Tab has to reach; in an open dialog nothing else. */
const stops = () => {
  const root = document.querySelector('dialog[open]') ?? document
  return [...root.querySelectorAll(focusable)].filter(
    (element) => element.tabIndex >= 0 && !element.disabled && isShown(element),
  )
}
const ancestors = (element) => {
  const found = []
  for (let one = element.parentElement; one !== null; one = one.parentElement) found.push(one)
  return found
}
const isClipping = (element) => getComputedStyle(element).overflow !== 'visible'

/** Elements in the order in which they had the focus. */
let order = []

const keyboard = {
  begin() {
    order = []
  },

  /** After a key: null if the focus has gone round, else what is wrong with the element that has it. */
  step() {
    const element = document.activeElement
    // Its day, month, year and picker have the focus one after the other.
    if (element === order.at(-1) && element.type === 'date') return []
    if (element === null || element === document.body || order.includes(element)) return null
    order.push(element)
    const problems = []
    const { outlineStyle, outlineWidth, outlineOffset } = getComputedStyle(element)
    if (outlineStyle === 'none' || Number.parseFloat(outlineWidth) < 2) problems.push('has the focus unseen')
    const [rect] = element.getClientRects()
    const at = document.elementFromPoint(
      rect.x + rect.width / 2,
      rect.y + Math.min(rect.height, innerHeight) / 2,
    )
    if (!element.contains(at) && !at?.contains(element))
      problems.push(`has the focus below ${at === null ? 'the edge of the screen' : describe(at)}`)
    const ring = Number.parseFloat(outlineOffset) + Number.parseFloat(outlineWidth) / 2
    for (const box of ancestors(element)
      .filter(isClipping)
      .map((one) => one.getBoundingClientRect()))
      if (rect.left - ring < box.left && rect.right + ring > box.right)
        problems.push('has a ring that is cut')
    return problems.map((problem) => `${describe(element)} ${problem}`)
  },

  /** Once the focus has gone round: what it did not reach, and where its order is not that of reading. */
  end() {
    const missed = stops().filter((element) => !order.includes(element))
    const shown = order.filter((element) => element.isConnected && !element.matches('.skip'))
    const restore = unpin()
    const steps = shown.slice(1).flatMap((element, at) => {
      const [before, after] = [shown[at], element].map((one) => one.getBoundingClientRect())
      const isAbove = after.bottom <= before.top + 1 && after.left < before.right
      const isLeft = after.right <= before.left && after.bottom > before.top && after.top < before.bottom
      return isAbove || isLeft ? [`${describe(element)} comes after ${describe(shown[at])}`] : []
    })
    restore()
    return [...missed.map((element) => `${describe(element)} is not reached`), ...steps]
  },

  names: () => order.map(describe),

  /** Cells and items that end beyond the screen, or beyond the panel that has their list; on a phone a table may scroll. */
  beyondScreen() {
    const { clientWidth: width, scrollWidth: whole } = document.documentElement
    const found = [...document.querySelectorAll('main th, main td, main li')].flatMap((element) => {
      const { right, width: own } = element.getBoundingClientRect()
      const panel = element.closest('.panel')
      const end = panel === null ? width : Math.min(width, panel.getBoundingClientRect().right)
      const mayScroll = width < 700 && panel !== null && element.closest('table') !== null
      if (own === 0 || right <= end + 1 || mayScroll) return []
      return [`${describe(element)} ends at ${Math.round(right)} of ${Math.round(end)}`]
    })
    return whole > width ? [`the page is ${whole} of ${width}`, ...found] : found
  },

  /** What reacts to a pointer, and not to the keyboard. */
  pointerOnly() {
    return [...document.querySelectorAll('#app *')].flatMap((element) => {
      const has = (types) => types.some((type) => listeners.get(element)?.has(type))
      const isStop = element.matches(focusable)
      const within = isStop || element.querySelector(focusable) !== null
      if (has(clicks) && !isStop) return [`${describe(element)} reacts to clicks alone`]
      if (has(hovers) && !(within && has(isStop ? ['focus', 'focusin'] : ['focusin'])))
        return [`${describe(element)} reacts to a hovering pointer alone`]
      return []
    })
  },
}

/** Puts what is pinned to the screen into its place on the page; the result pins it again. */
function unpin() {
  const pinned = [...document.querySelectorAll('#app *')].filter((element) =>
    ['sticky', 'fixed'].includes(getComputedStyle(element).position),
  )
  for (const element of pinned) element.style.setProperty('position', 'static', 'important')
  return () => {
    for (const element of pinned) element.style.removeProperty('position')
  }
}

const layout = {
  /** With the distances that readers may set (WCAG 2.2, 1.4.12), or without. */
  space(isWide) {
    const spacing = new CSSStyleSheet()
    spacing.replaceSync(`
      * { line-height: 1.5 !important; letter-spacing: 0.12em !important; word-spacing: 0.16em !important }
      p { margin-bottom: 2em !important }`)
    document.adoptedStyleSheets = isWide ? [spacing] : []
  },

  layoutProblems() {
    const restore = unpin()
    const { scrollWidth } = document.documentElement
    const problems = scrollWidth > innerWidth ? [`the page is ${scrollWidth} px wide`] : []
    const clipping = new Set([...document.querySelectorAll('#app *')].filter(isClipping))
    const texts = []
    const walker = document.createTreeWalker(document.querySelector('#app'), NodeFilter.SHOW_TEXT)
    for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
      const parent = node.parentElement
      if (node.data.trim() === '' || !parent.checkVisibility() || parent.closest('.sr, .skip, option, svg'))
        continue
      const range = document.createRange()
      range.selectNodeContents(node)
      const name = `${describe(parent)} in ${describe(parent.parentElement)}`
      const hides = [parent, ...ancestors(parent)].filter((one) => clipping.has(one))
      for (const rect of range.getClientRects()) {
        const cutter = hides.find((one) => isOutside(rect, one))
        if (cutter === undefined) texts.push({ node, name, rect })
        else if (isCut(cutter, rect)) problems.push(`${name} is cut by ${describe(cutter)}`)
      }
    }
    for (const [at, one] of texts.entries())
      for (const other of texts.slice(at + 1)) {
        const width = Math.min(one.rect.right, other.rect.right) - Math.max(one.rect.left, other.rect.left)
        const height = Math.min(one.rect.bottom, other.rect.bottom) - Math.max(one.rect.top, other.rect.top)
        if (one.node !== other.node && width > 2 && height > 4)
          problems.push(`${one.name} covers ${other.name}`)
      }
    restore()
    return [...new Set(problems)]
  },
}

function isSideways(rect, element) {
  const { left, right } = element.getBoundingClientRect()
  return rect.right > right + 1 || rect.left < left - 1
}

function isOutside(rect, element) {
  return isSideways(rect, element) || rect.bottom > element.getBoundingClientRect().bottom + 2
}

/** Tables and what is preformatted may scroll; what a link shows in short is whole on its page. */
function isCut(cutter, rect) {
  const { overflowX, textOverflow } = getComputedStyle(cutter)
  if (overflowX === 'auto' || overflowX === 'scroll')
    return isSideways(rect, cutter) && cutter.querySelector('table') === null && !cutter.matches('pre')
  return !(textOverflow === 'ellipsis' && cutter.closest('a, tr:has(a)'))
}

const keepsColours = (element) => getComputedStyle(element).forcedColorAdjust === 'none'

const times = {
  /** Times whose text is not in the zone of the reader, or that are not in UTC on hover. */
  wrongTimes(zone) {
    const clock = new Intl.DateTimeFormat('en-GB', {
      timeZone: zone,
      hour: '2-digit',
      minute: '2-digit',
      second: '2-digit',
      hourCycle: 'h23',
    })
    const wrong = [...document.querySelectorAll('#app time')].filter(({ dateTime, title, textContent }) => {
      const shown = /\d\d:\d\d:\d\d/.exec(textContent)
      const isLocal = shown === null || shown[0] === clock.format(Date.parse(dateTime))
      return !isLocal || title !== `${dateTime.slice(0, 19).replace('T', ' ')} UTC`
    })
    return wrong.map(
      (element) => `${describe(element)} of ${element.dateTime} has the title ${element.title}`,
    )
  },
}

/** What is not shown as old, or not shown, after an error. */
const notGreyed = () =>
  [...document.querySelectorAll('.loaded:not(.loaded .loaded)')]
    .filter((box) => getComputedStyle(box).filter !== 'grayscale(1)' || box.textContent.trim() === '')
    .map(describe)

const preferences = {
  /** In the colours of a reader grounds have one colour: what is lost are marks without words, and which link is current. */
  lostColours() {
    const lost = [...document.querySelectorAll('#app *')].filter((element) => {
      const isMark = element.textContent === '' && element.matches('span') && isShown(element)
      return (isMark || element.matches('a[aria-current]')) && !keepsColours(element)
    })
    return lost.map((element) => `${describe(element)} loses its colour`)
  },

  moving: () =>
    [...document.querySelectorAll('#app *')]
      .filter((element) => {
        const { animationName, transitionDuration } = getComputedStyle(element)
        return animationName !== 'none' || transitionDuration !== '0s'
      })
      .map(describe),
}

globalThis.checks = { ...times, notGreyed, ...preferences, ...keyboard, ...layout }
