// Notifications of the browser about calls that wait, if the reader has turned them on. One page of the browser shows them,
// and stays connected while it is hidden.
import { storedValue, storeValue } from './storage.js'

const NAME = 'svc-notify'

let isHolder = false
let isQueued = false

/** Whether the browser can show them. */
export function canNotify(): boolean {
  return 'Notification' in globalThis && Notification.permission !== 'denied'
}

export function isNotifying(): boolean {
  return canNotify() && Notification.permission === 'granted' && storedValue(NAME) !== null
}

/** Asks the reader if the browser does not know yet; false if they refuse. */
export async function turnNotifying(isOn: boolean): Promise<boolean> {
  storeValue(NAME, isOn ? '' : null)
  if (isOn && (await Notification.requestPermission()) !== 'granted') return false
  queueForNotices()
  return isOn
}

/** Waits until no other page of the browser shows them. */
export function queueForNotices(): void {
  if (isQueued || !isNotifying()) return
  isQueued = true
  // The lock is released when the page is left, so its promise never ends.
  void navigator.locks.request(NAME, () => {
    isHolder = true
    return new Promise(() => undefined)
  })
}

/** Whether this page is the one that shows them. */
export function showsNotices(): boolean {
  return isHolder && isNotifying()
}

/** The text has no names of callers and tools, because it may be shown on a locked screen. */
export function notifyOfWaiting(count: string, gateway: string): void {
  const title = count === '1' ? 'A call waits for a decision' : `${count} calls wait for a decision`
  const notice = new Notification(title, { tag: NAME, body: gateway })
  notice.onclick = () => focus()
}
