// Compares two definitions, member by member, for a review.
import { isJsonObject, visibleInLine } from '@svc/core/json'

/** Lines of one difference; `pinned` is undefined for a new definition. Texts of servers are shown with their hidden characters. */
export function differenceLines(pinned: string | undefined, text: string): string[] {
  if (pinned === undefined) return [`+ ${visibleInLine(text)}`]
  return differences(JSON.parse(pinned), JSON.parse(text), '')
}

function differences(before: unknown, after: unknown, pointer: string): string[] {
  if (isJsonObject(before) && isJsonObject(after)) {
    const names = [...new Set([...Object.keys(before), ...Object.keys(after)])]
    return names.flatMap((name) =>
      differences(memberOf(before, name), memberOf(after, name), `${pointer}/${escaped(name)}`),
    )
  }
  const [removed, added] = [before, after].map((value) => JSON.stringify(value))
  if (removed === added) return []
  return [
    visibleInLine(pointer === '' ? 'the whole' : pointer),
    ...(removed === undefined ? [] : [`  - ${visibleInLine(removed)}`]),
    ...(added === undefined ? [] : [`  + ${visibleInLine(added)}`]),
  ]
}

function memberOf(value: Readonly<Record<string, unknown>>, name: string): unknown {
  return Object.hasOwn(value, name) ? value[name] : undefined
}

/** RFC 6901. */
function escaped(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1')
}
